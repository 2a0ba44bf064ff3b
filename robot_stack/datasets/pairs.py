"""The choice of the next two moments to be compared: those of whose order Φ is least sure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from robot_stack.types.preferences import Moment

Pair = tuple[Moment, Moment]

CANDIDATES = 400
"""Pairs that are drawn to choose among."""
SPREAD = 0.1
"""Difference of Φ at which the answer is known in three cases of four."""
BEGINNING = 0.1
"""Share of an episode at its start of which nothing is asked: all of them begin alike."""
APART = 0.2
"""Share of an episode that lies between two of its own frames at least."""
SEEN = 0.2
"""What a pair is worth less for each time that one of its episodes was asked about: others say something new."""


def choose_pair(
    progress: Mapping[str, np.ndarray], asked: Collection[frozenset[Moment]], rng: np.random.Generator
) -> Pair | None:
    """Choose the two frames of which an answer says most; None if there are no two that were not asked about.

    That is the entropy of the answer by the Bradley-Terry model on Φ, which is highest where Φ is the same (Christiano
    et al., 2017, arXiv:1706.03741, choose by the variance of their ensemble). Where Φ is not known any pair is as good.

    Args:
        progress: Φ of each frame of the episodes, shape (T+1,), NaN where it is not known.
        asked: Pairs that were asked about.
        rng: Draws the candidates.
    """
    names = sorted(name for name, phi in progress.items() if len(phi) > 1)
    if not names:
        return None
    times = {name: sum(name in {moment.episode_id for moment in pair} for pair in asked) for name in names}
    best: tuple[float, Pair] | None = None
    for _ in range(CANDIDATES):
        two = rng.choice(len(names), size=2, replace=len(names) == 1)
        (one, other), frames = (names[i] for i in two), []
        for name in (one, other):
            last = len(progress[name]) - 1
            frames.append(int(rng.integers(min(last, int(np.ceil(BEGINNING * last))), last + 1)))
        if one == other and abs(frames[0] - frames[1]) < max(1, APART * len(progress[one])):
            continue
        pair = Moment(episode_id=one, frame=frames[0]), Moment(episode_id=other, frame=frames[1])
        if frozenset(pair) in asked:
            continue
        worth = _entropy(progress[one][frames[0]] - progress[other][frames[1]])
        worth -= SEEN * (times[one] + times[other])
        if best is None or worth > best[0]:
            best = worth, pair
    return None if best is None else best[1]


def _entropy(difference: float) -> float:
    """Return the entropy of the answer in bits, by the difference of Φ; 1 where it is NaN."""
    if np.isnan(difference):
        return 1.0
    p = 1 / (1 + np.exp(min(abs(difference) / SPREAD, 30.0)))
    return float(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))
