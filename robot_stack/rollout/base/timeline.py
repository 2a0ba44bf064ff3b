"""The chunks of a base policy on the time line of the control loop: which action is for now."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robot_stack.types.spec import GRIPPER_DEADBAND

EARLY = 0.25
"""Share of a control period, or of a step if that is shorter, by which an instant may come early: its stamp jitters."""


@dataclass(frozen=True, slots=True)
class Played:
    """The action for an instant, and the chunk that it is from.

    Attributes:
        action: float32 (A,).
        since_ns: When the chunk took over.
        before_ns: For how long the one before had been playing then, 0 if there was none.
        noise: What the chunk was made of, where that was chosen, float32 (D,).
    """

    action: np.ndarray
    since_ns: int
    before_ns: int
    noise: np.ndarray | None


@dataclass(frozen=True, slots=True)
class _Chunk:
    stamp_ns: int
    actions: np.ndarray
    noise: np.ndarray | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """A chunk, and how far from it the arm was when it took over."""

    chunk: _Chunk
    since_ns: int
    before_ns: int
    apart: np.ndarray


class Timeline:
    """The newest chunk of actions, and how far the arm was from it when it took over.

    A chunk begins at the stamp of the observation that it answers; what has passed while it was computed is left out.
    A tick plays the mean of the steps that fall into its period, and of a discrete gripper the first press in them.
    Called from the control loop, and `add` from another thread.

    Args:
        rate_hz: Actions of a chunk per second.
        join_s: Time in which a new chunk takes over from the last one, linearly.
        period_s: Between two control ticks.
        discrete: Entries that are never joined: between two choices lies another one.
        limit: Shortens the mean of steps to what the arm can do in a tick, before it is joined.
    """

    def __init__(
        self,
        *,
        rate_hz: float,
        join_s: float,
        period_s: float,
        discrete: tuple[int, ...],
        limit: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._step_ns = 1e9 / rate_hz
        self._early_ns = EARLY * min(self._step_ns, 1e9 * period_s)
        self._join_ns = 1e9 * join_s
        self._steps = max(1, math.ceil(1e9 * period_s / self._step_ns - 1e-6))
        """Steps of a chunk that a control period takes."""
        self._last = (0, 0)
        """Of the last tick, steps of the chunk at hand: the first of its period, and the first with a press for it."""
        self._discrete, self._limit = list(discrete), limit
        self._lock = threading.Lock()
        self._new: _Chunk | None = None
        self._plan: _Plan | None = None
        self._played: np.ndarray | float = 0.0
        """How far from its chunk the last action was."""

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._new = self._plan = None

    def add(self, stamp_ns: int, actions: np.ndarray, noise: np.ndarray | None = None) -> None:
        """Take a chunk, float32 (T, A), computed from the observation of `stamp_ns`, and of that noise."""
        with self._lock:
            if self._new is None or stamp_ns >= self._new.stamp_ns:
                self._new = _Chunk(stamp_ns, actions, noise)

    def at(self, now_ns: int) -> Played | None:
        """Return the action for now; None where no chunk reaches that far."""
        with self._lock:
            new = self._of(self._new, now_ns)
            if self._new is None or new is None:
                return None
            index = self._index(self._new, now_ns)
            last = index, self._first(self._new, index)
            if self._plan is None or self._plan.chunk is not self._new:
                old = self._plan
                going_out = None if old is None else self._of(old.chunk, now_ns)
                apart = np.zeros_like(new) if going_out is None else going_out + self._played - new
                apart[self._discrete] = 0.0
                self._plan = _Plan(self._new, now_ns, 0 if old is None else now_ns - old.since_ns, apart)
            # the first tick already moves towards the chunk, the last one before the end has not yet reached it
            passed_ns = now_ns - self._plan.since_ns
            share = (passed_ns + self._step_ns) / (self._join_ns + self._step_ns)
            left = 0.0 if passed_ns >= self._join_ns else 1.0 - share
            self._played = left * self._plan.apart
            self._last = last
            action = (new + self._played).astype(np.float32)
            return Played(action, self._plan.since_ns, self._plan.before_ns, self._plan.chunk.noise)

    def _of(self, chunk: _Chunk | None, now_ns: int) -> np.ndarray | None:
        if chunk is None:
            return None
        index = self._index(chunk, now_ns)
        if not 0 <= index < len(chunk.actions):
            return None
        action = self._limit(chunk.actions[index : index + self._steps].mean(axis=0))
        rows = chunk.actions[self._first(chunk, index) : index + self._steps, self._discrete]
        pressed = (np.abs(rows) > GRIPPER_DEADBAND).argmax(axis=0)
        action[self._discrete] = rows[pressed, np.arange(rows.shape[1])]
        return action

    def _first(self, chunk: _Chunk, index: int) -> int:
        """Return the first step whose press is played: of those that a late tick leaves out, and never twice."""
        before, first = self._last
        if self._plan is None or self._plan.chunk is not chunk:
            return index
        if index == before:
            return first
        last = min(index + self._steps, len(chunk.actions)) - 1
        return min(max(index - self._steps, before + self._steps), last)

    def _index(self, chunk: _Chunk, now_ns: int) -> int:
        return math.floor((now_ns - chunk.stamp_ns + self._early_ns) / self._step_ns)
