"""Episodes whose labels of progress say nothing, and preferences that know what is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.model import ProgressModel
from reward_models.progress.orders import Order
from tests.reward_models.synthetic import episode

Misled = tuple[ScoredEpisode, np.ndarray]


def misled(seed: int, *, success: bool = True) -> Misled:
    """An episode whose label of progress is 0.5 throughout, and the true progress, which its first cause shows."""
    made = episode(seed, success=success)
    rng = np.random.default_rng(seed)
    length = int(rng.integers(25, 45))
    pace = rng.gamma(0.5, size=length - 1)
    truth = np.concatenate([[0.0], np.cumsum(pace) / pace.sum()]) * (1.0 if success else 0.4)
    return replace(made, name=str(seed), progress=np.full(length, 0.5)), truth


def accuracy(model: ProgressModel) -> float:
    """Share of pairs of frames of other episodes, true progress 0.2 apart or more, that Φ orders rightly."""
    rng, right = np.random.default_rng(0), []
    held = [misled(seed) for seed in range(50, 56)]
    phi = [model.score(shown.frames).progress for shown, _ in held]
    while len(right) < 300:
        a, b = rng.integers(len(held), size=2)
        s, t = int(rng.integers(len(phi[a]))), int(rng.integers(len(phi[b])))
        if abs(held[a][1][s] - held[b][1][t]) >= 0.2:
            right.append((phi[a][s] > phi[b][t]) == (held[a][1][s] > held[b][1][t]))
    return float(np.mean(right))


def answers(made: Sequence[Misled], count: int, *, seed: int) -> list[tuple[Order, ...]]:
    """True answers about random pairs of frames of other episodes, by the episode that has them."""
    rng = np.random.default_rng(seed)
    found: list[list[Order]] = [[] for _ in made]
    for _ in range(count):
        a, b = rng.choice(len(made), size=2, replace=False)
        s, t = (int(rng.integers(len(made[each][1]))) for each in (a, b))
        found[a].append(Order(s, made[b][0].name, t, float(made[b][1][t] > made[a][1][s])))
    return [tuple(own) for own in found]
