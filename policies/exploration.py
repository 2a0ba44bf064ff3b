"""Exploration noise of Gaussian actors: drawn anew at each decision, or smooth as a function of the state (gSDE).

Source: generalised state-dependent exploration, Raffin, Kober and Stulp, 2021, arXiv:2005.05719, section 3. Deviations:
the features that the noise depends on are normalised, so that at any state it is standard normal; how large it is stays
with the actor's own standard deviation, and the losses stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def standard_normal(rows: int, size: int, rng: torch.Generator) -> Tensor:
    """Draw standard normal noise (rows, size) on the generator's device."""
    return torch.randn(rows, size, generator=rng, device=rng.device)


class ExplorationNoise:
    """A source of standard normal noise for the decisions of an actor.

    Args:
        size: Entries of a decision.
        ticks: For how many control ticks one random function of the state says what the noise is; 1 for noise that is
            drawn anew at each decision.
    """

    def __init__(self, size: int, ticks: int) -> None:
        self._size, self._ticks = size, ticks
        self._directions: Tensor | None = None
        self._drawn_at = self._last = 0

    def draw(self, rows: int, hidden: Callable[[], Tensor], *, tick: int, rng: torch.Generator) -> Tensor:
        """Return the noise of a decision, (rows, size).

        Args:
            rows: B.
            hidden: Returns the actor's last hidden layer at these observations, (B, H); asked only where the noise
                depends on it.
            tick: Control ticks since the episode began; one that is not above the last begins another episode.
            rng: Draws it.
        """
        if self._ticks == 1:
            return standard_normal(rows, self._size, rng)
        state = functional.normalize(hidden().float(), dim=1)
        if self._directions is None or not self._last < tick < self._drawn_at + self._ticks:
            self._directions, self._drawn_at = standard_normal(state.shape[1], self._size, rng), tick
        self._last = tick
        return state @ self._directions
