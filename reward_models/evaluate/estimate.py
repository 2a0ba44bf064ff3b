"""A figure with its interval: 95 % by bootstrap over episodes, never over frames, which are not independent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reward_models.metrics import wilson_interval

DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure, NaN where it is not defined, with its 95 % interval and the number of its episodes."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share of episodes in which something happened, with the Wilson interval.

    Attributes:
        count: Episodes in which it happened.
        n: Episodes in which it could.
    """

    count: int
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, count: int, n: int) -> Rate:
        """Make a rate with its interval from the two counts."""
        low, high = wilson_interval(count, n)
        return cls(count=count, n=n, low=low, high=high)


UNKNOWN = Estimate(value=float("nan"), low=float("nan"), high=float("nan"), n=0)


def mean_of(values: np.ndarray | list[float], rng: np.random.Generator) -> Estimate:
    """Estimate the mean over episodes; those for which it is not defined are left out and not counted in n."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return UNKNOWN
    draws = known[rng.integers(len(known), size=(DRAWS, len(known)))].mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return Estimate(value=float(known.mean()), low=float(low), high=float(high), n=len(known))


def of_groups(
    figure: Callable[..., float], groups: list[np.ndarray], rng: np.random.Generator, draws: int = DRAWS
) -> Estimate:
    """Estimate a figure of several groups of episodes, each resampled by itself.

    Args:
        figure: Takes the groups' rows.
        groups: One row an episode, shape (N_i, ...).
    """
    if any(not len(group) for group in groups):
        return UNKNOWN
    drawn = [figure(*(group[rng.integers(len(group), size=len(group))] for group in groups)) for _ in range(draws)]
    known = np.array(drawn)[np.isfinite(drawn)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (np.nan, np.nan)
    return Estimate(value=figure(*groups), low=float(low), high=float(high), n=sum(map(len, groups)))
