"""Section F: OPD metrics of groups of episodes, as the paper defines them; see `reward_models.opd`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.evaluate.estimate import Estimate, mean_of
from reward_models.opd import opd


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOpd:
    """The mean OPD metrics of a group of episodes; see `reward_models.opd.Opd` for each of them.

    Attributes:
        episodes: In the group, those without two readable frames left out.
    """

    episodes: int
    milestone: Estimate
    peak: Estimate
    path: Estimate
    regret: Estimate
    stagnation: Estimate


def opd_of_groups(phi: Mapping[str, Sequence[np.ndarray]], rng: np.random.Generator) -> dict[str, GroupOpd]:
    """Compute the mean OPD metrics of each group.

    Args:
        phi: Group -> Φ of its episodes, each of shape (K,), NaN where unreadable.
        rng: Draws for the intervals.
    """
    found = {}
    for name, episodes in phi.items():
        readable = [values[np.isfinite(values)] for values in episodes]
        rows = [opd(values, version="paper") for values in readable if len(values) >= 2]
        found[name] = GroupOpd(
            episodes=len(rows),
            milestone=mean_of([row.milestone for row in rows], rng),
            peak=mean_of([row.peak for row in rows], rng),
            path=mean_of([row.path for row in rows], rng),
            regret=mean_of([row.regret for row in rows], rng),
            stagnation=mean_of([row.stagnation for row in rows], rng),
        )
    return found
