"""The chunks of a base policy on the time line of the control loop: which action is for now."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class _Chunk:
    stamp_ns: int
    actions: np.ndarray


class Timeline:
    """The newest chunk of actions, and the one before while the arm is handed from that to this.

    A chunk begins at the stamp of the observation that it answers; what has passed while it was computed is left out.
    Called from the control loop, and `add` from another thread.

    Args:
        rate_hz: Actions of a chunk per second.
        join_s: Time in which a new chunk takes over from the last one, linearly.
    """

    def __init__(self, *, rate_hz: float, join_s: float) -> None:
        self._step_ns = 1e9 / rate_hz
        self._join_ns = 1e9 * join_s
        self._lock = threading.Lock()
        self._new: _Chunk | None = None
        self._old: _Chunk | None = None
        self._since_ns: int | None = None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._new = self._old = self._since_ns = None

    def add(self, stamp_ns: int, actions: np.ndarray) -> None:
        """Take a chunk, float32 (T, A), computed from the observation of `stamp_ns`."""
        with self._lock:
            if self._new is None or stamp_ns > self._new.stamp_ns:
                self._old, self._new, self._since_ns = self._new, _Chunk(stamp_ns, actions), None

    def at(self, now_ns: int) -> np.ndarray | None:
        """Return the action for now, float32 (A,); None where no chunk reaches that far."""
        with self._lock:
            new = self._of(self._new, now_ns)
            if new is None:
                return None
            if self._since_ns is None:
                self._since_ns = now_ns
            old, passed_ns = self._of(self._old, now_ns), now_ns - self._since_ns
            if old is None or passed_ns >= self._join_ns:
                return new.copy()
            # the first tick already moves towards the new chunk, the last one before the end has not yet reached it
            share = min(1.0, (passed_ns + self._step_ns) / (self._join_ns + self._step_ns))
            blended: np.ndarray = (old + share * (new - old)).astype(np.float32)
            return blended

    def _of(self, chunk: _Chunk | None, now_ns: int) -> np.ndarray | None:
        if chunk is None:
            return None
        index = math.floor((now_ns - chunk.stamp_ns) / self._step_ns + 1e-6)
        if not 0 <= index < len(chunk.actions):
            return None
        action: np.ndarray = chunk.actions[index]
        return action
