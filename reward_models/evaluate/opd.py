"""Section F: the OPD metrics, which say how far, how directly and how steadily an episode went, from its Φ alone.

Source: PRM-as-a-Judge (2026, arXiv:2603.21669), as the paper defines them; its released codes define several otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from reward_models.evaluate.estimate import Estimate, mean_of

MILESTONES = (0.0, 0.25, 0.5, 0.75, 1.0)
STAGNANT = 0.005
"""|ΔΦ| of a step that counts as standing still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opd:
    """The OPD metrics of one episode, each in [0, 1].

    Attributes:
        milestone: MC, the highest quarter that Φ reached.
        peak: MP, the highest Φ.
        path: PPL, what was gained over the length of the way there: 1 went straight. Higher is better.
        regret: CRA, mean distance below the best Φ so far. Lower is better.
        stagnation: STR, share of steps that stand still. Lower is better.
    """

    milestone: float
    peak: float
    path: float
    regret: float
    stagnation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOpd:
    """The mean OPD metrics of a group of episodes; see `Opd` for each of them.

    Attributes:
        episodes: In the group, those without two readable frames left out.
    """

    episodes: int
    milestone: Estimate
    peak: Estimate
    path: Estimate
    regret: Estimate
    stagnation: Estimate


def opd(phi: np.ndarray) -> Opd:
    """Compute the OPD metrics of an episode from its Φ.

    Args:
        phi: Φ per frame, in [0, 1], shape (T+1,), T >= 1, all valid.

    >>> straight = opd(np.array([0.0, 0.5, 1.0]))
    >>> straight.path, straight.regret, straight.milestone
    (1.0, 0.0, 1.0)

    Raises:
        ValueError: If there are fewer than two frames or one is not valid.
    """
    phi = np.asarray(phi, dtype=np.float64)
    if phi.ndim != 1 or len(phi) < 2 or not np.isfinite(phi).all() or (phi < 0).any() or (phi > 1).any():
        raise ValueError(f"phi has shape {phi.shape}, must be at least two frames, all valid and in [0, 1]")
    steps = np.abs(np.diff(phi))
    way, peak = float(steps.sum()), float(phi.max())
    return Opd(
        milestone=max(quarter for quarter in MILESTONES if peak >= quarter),
        peak=peak,
        path=float(phi[-1] * (phi[-1] - phi[0]) / way) if way > 0 else 0.0,
        regret=float((np.maximum.accumulate(phi) - phi).mean()),
        stagnation=float((steps < STAGNANT).mean()),
    )


def opd_of_groups(phi: Mapping[str, Sequence[np.ndarray]], rng: np.random.Generator) -> dict[str, GroupOpd]:
    """Compute the mean OPD metrics of each group.

    Args:
        phi: Group -> Φ of its episodes, each of shape (K,), NaN where unreadable.
    """
    found = {}
    for name, episodes in phi.items():
        readable = [values[np.isfinite(values)] for values in episodes]
        rows = [opd(values) for values in readable if len(values) >= 2]
        means = {each.name: mean_of([getattr(row, each.name) for row in rows], rng) for each in fields(Opd)}
        found[name] = GroupOpd(episodes=len(rows), **means)
    return found
