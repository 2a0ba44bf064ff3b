"""A process's report on itself: rates, ages and counts of each of its tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.types.finding import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The condition of one task of a node."""

    task: str
    level: Level = Level.OK
    message: str = "ok"
    values: Mapping[str, object] = field(default_factory=dict)


class RateMeter:
    """A meter of the rate and jitter of something that should happen steadily."""

    def __init__(self, rate_hz: float, window: int = 200) -> None:
        self._period_ns = 1e9 / rate_hz
        self._stamps: deque[int] = deque(maxlen=window)
        self.count = 0

    def tick(self, now_ns: int) -> None:
        """Count one occurrence, now."""
        self._stamps.append(now_ns)
        self.count += 1

    def age_s(self, now_ns: int) -> float:
        """Return the seconds since the last occurrence; infinite before the first."""
        return (now_ns - self._stamps[-1]) / 1e9 if self._stamps else float("inf")

    def values(self, now_ns: int) -> dict[str, object]:
        """Return frequency, 99th percentile of the deviation from the period, and age over the last `window` ticks."""
        if len(self._stamps) < 2:
            return {"count": self.count}
        gaps = np.diff(np.array(self._stamps, dtype=np.float64))
        return {
            "frequency_hz": round(1e9 / float(gaps.mean()), 2),
            "jitter_p99_ms": round(float(np.percentile(np.abs(gaps - self._period_ns), 99)) / 1e6, 2),
            "age_ms": round(self.age_s(now_ns) * 1e3, 1),
            "count": self.count,
        }


class Due:
    """A rate limiter inside a faster loop: it says when something is due, and never bursts after a gap."""

    def __init__(self, rate_hz: float) -> None:
        self._period_ns = round(1e9 / rate_hz)
        self._early_ns = self._period_ns // 10
        self._next_ns: int | None = None

    def now(self, now_ns: int) -> bool:
        """Return True once per period; up to a tenth early, since the loop's own ticks jitter."""
        if self._next_ns is not None and now_ns < self._next_ns - self._early_ns:
            return False
        late = self._next_ns is None or now_ns - self._next_ns > self._period_ns
        self._next_ns = (now_ns if late or self._next_ns is None else self._next_ns) + self._period_ns
        return True
