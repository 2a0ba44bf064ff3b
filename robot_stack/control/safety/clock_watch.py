"""A watch for stamps that come from another clock than this machine's.

The steady clock of another host has another origin, and a wall clock may be off: such stamps make every age wrong.
The best of the newest arrivals is judged, so that a single message that was held up is no skew.
"""

from __future__ import annotations

from collections import deque

from robot_stack.types.reason import Refusal, RefusalKind

SKEW_NS = 50_000_000
WINDOW_NS = 1_000_000_000
LEAST = 3
NEWEST = 20
"""Arrivals kept per topic."""


class ClockWatch:
    """A record of how late the stamps of each topic were when they arrived."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[tuple[int, int]]] = {}

    def heard(self, topic: str, stamp_ns: int, now_ns: int) -> None:
        """Note that a message has arrived; one without a stamp says nothing."""
        if stamp_ns > 0:
            self._arrivals.setdefault(topic, deque(maxlen=NEWEST)).append((now_ns, now_ns - stamp_ns))

    def skewed(self, now_ns: int) -> Refusal | None:
        """Name a topic whose stamps are of another clock."""
        for topic, arrivals in self._arrivals.items():
            late = [late_ns for heard_ns, late_ns in arrivals if now_ns - heard_ns <= WINDOW_NS]
            best = min(late, key=abs, default=0)
            if len(late) >= LEAST and abs(best) > SKEW_NS:
                way = "behind" if best > 0 else "ahead of"
                text = (
                    f"stamps of {topic} are {abs(best) / 1e6:.0f} ms {way} this machine's clock, "
                    f"must be within {SKEW_NS / 1e6:.0f} ms; synchronise the hosts"
                )
                return Refusal(kind=RefusalKind.CLOCK, text=text)
        return None
