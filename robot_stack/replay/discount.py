"""A discount that grows with what the policy has mastered of the task: Automatic Discount Scheduling.

While a policy cannot do the beginning of a task, reward for its end leads it astray; so it first looks a few ticks
ahead, and further with every tick that it masters.

Source: Liu et al., 2024, arXiv:2310.07433, section 4, and the authors' code (dwjshift/IL_ADS, `ads.py`): the discount
is α^(1/k) after k mastered ticks, and a tick is mastered once the places of an episode's frames in the demonstration
rise nearly as often, up to that tick, as those of demonstrations do: by the longest increasing subsequence. Deviations:

- the place of a frame is where the median demonstration has its Φ, theirs where it has the nearest image;
- each training episode counts, theirs are evaluations without noise, of which the best tenth counts;
- frames behind a take-over say nothing of the policy, and a success without help shows all ticks, since a policy may be
  quicker than its demonstrations;
- it begins at a twentieth of a demonstration and grows by as much an episode at most; theirs begins at a fifth;
- once all is mastered the algorithm's own discount holds, which also bounds what comes before;
- another version of the reward model judges all episodes anew.

Where Φ of the demonstrations is flat, standing still follows them too: Φ says nothing of what is done there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

ALPHA = 0.2
"""Of the paper: what reward in k ticks is worth."""
ENOUGH = 0.9
"""Of the paper: share of the demonstrations' rises that an episode must have up to a tick."""
STEP = 0.05
"""Share of a demonstration's ticks that count as mastered at first, and that one episode adds at most."""


class DiscountSchedule:
    """A discount by what has been mastered, one episode after the other.

    Args:
        demonstrations: Φ of each frame of each successful demonstration, at least one.
        final: The discount per tick once all is mastered.

    Attributes:
        mastered: k, ticks from the start that the policy has mastered; the first ones are given.
    """

    def __init__(self, demonstrations: Sequence[np.ndarray], final: float) -> None:
        self._final = final
        self._ticks = int(np.median([len(phi) for phi in demonstrations])) - 1
        self._curve = np.median([_extended(phi, self._ticks + 1) for phi in demonstrations], axis=0)
        rises = [_extended(self._rises(phi), self._ticks + 1) for phi in demonstrations]
        self._wanted = np.floor(ENOUGH * np.median(rises, axis=0))
        self._step = max(1, round(STEP * self._ticks))
        self.mastered = self._step

    @property
    def complete(self) -> bool:
        """Return whether all ticks are mastered."""
        return self.mastered >= self._ticks

    @property
    def gamma(self) -> float:
        """Return the discount per tick."""
        return self._final if self.complete else min(self._final, ALPHA ** (1 / self.mastered))

    def add_episode(self, phi: np.ndarray, *, done_alone: bool) -> None:
        """Count the ticks that an episode shows to be mastered.

        Args:
            phi: Φ of its frames until an operator took over, float, shape (n,).
            done_alone: Whether it was a success without help.
        """
        rises = self._rises(phi)
        for tick in range(self.mastered + 1, min(self.mastered + self._step, self._ticks) + 1):
            followed = tick < len(rises) and rises[tick] >= self._wanted[tick]
            if not (done_alone or followed):
                return
            self.mastered = tick

    def _rises(self, phi: np.ndarray) -> np.ndarray:
        """Return how often the place in the median demonstration has risen up to each frame, int64, shape (n,)."""
        return rises_until(np.abs(phi[:, None] - self._curve).argmin(axis=1))


def rises_until(places: np.ndarray) -> np.ndarray:
    """Return the length of the longest strictly increasing subsequence up to each entry, int64, same shape."""
    ends: list[int] = []
    found = np.empty(len(places), np.int64)
    for i, place in enumerate(places.tolist()):
        at = bisect_left(ends, place)
        if at == len(ends):
            ends.append(place)
        else:
            ends[at] = place
        found[i] = len(ends)
    return found


def _extended(values: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` values, the last of them repeated where there are fewer."""
    return np.asarray(values[np.minimum(np.arange(count), len(values) - 1)])
