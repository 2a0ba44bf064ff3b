"""A discount that grows with what the policy has mastered of the task: Automatic Discount Scheduling.

While a policy cannot do the beginning of a task, reward for its end leads it astray; so it first looks as many ticks
ahead as it follows the demonstrations, and further with every tick that it masters.

Source: Liu et al., 2024, arXiv:2310.07433, section 4: the discount is α^(1/k) after k mastered ticks, and a tick is
mastered once the places of an episode's frames in a demonstration rise as often as those of demonstrations do, up to
that tick: by the longest increasing subsequence. Deviations: Φ is the place, where theirs is the nearest frame of the
demonstration; frames behind a take-over say nothing of the policy; once all ticks are mastered, the configured
discount holds, which also bounds what comes before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

ALPHA = 0.2
"""Of the paper: what reward in k ticks is worth."""
ENOUGH = 0.9
"""Share of the demonstrations' rises that an episode must have up to a tick; of the paper."""
FIRST = 0.05
"""Share of the demonstrations' ticks that count as mastered at first, and that one episode can add."""


class DiscountSchedule:
    """The discount by what has been mastered, one episode after the other.

    Args:
        demonstrations: Φ of each frame of each successful demonstration, at least one.
        most: The discount once all is mastered, per tick.

    Attributes:
        mastered: k, ticks from the start that the policy has mastered; those at the beginning are given.
    """

    def __init__(self, demonstrations: Sequence[np.ndarray], most: float) -> None:
        self._most = most
        self._ticks = int(np.median([len(phi) for phi in demonstrations])) - 1
        rises = [_extended(rises_until(phi), self._ticks + 1) for phi in demonstrations]
        self._wanted = np.floor(ENOUGH * np.median(rises, axis=0))
        self._added = max(1, round(FIRST * self._ticks))
        self.mastered = self._added

    @property
    def complete(self) -> bool:
        """Return whether all ticks are mastered."""
        return self.mastered >= self._ticks

    @property
    def gamma(self) -> float:
        """Return the discount per tick."""
        return self._most if self.complete else min(self._most, ALPHA ** (1 / self.mastered))

    def see(self, phi: np.ndarray) -> None:
        """Count the ticks that an episode shows to be mastered.

        Args:
            phi: Φ of its frames until another than the policy drove, float, shape (n,).
        """
        rises = _extended(rises_until(phi), self._ticks + 1) if len(phi) else np.zeros(self._ticks + 1)
        for _ in range(self._added):
            if self.complete or rises[self.mastered + 1] < self._wanted[self.mastered + 1]:
                return
            self.mastered += 1


def rises_until(phi: np.ndarray) -> np.ndarray:
    """Return the length of the longest strictly increasing subsequence up to each frame, int64, same shape."""
    ends: list[float] = []
    found = np.empty(len(phi), np.int64)
    for frame, value in enumerate(phi.tolist()):
        place = bisect_left(ends, value)
        if place == len(ends):
            ends.append(value)
        else:
            ends[place] = value
        found[frame] = len(ends)
    return found


def _extended(values: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` values, the last of them repeated where there are fewer."""
    return np.asarray(values[np.minimum(np.arange(count), len(values) - 1)])
