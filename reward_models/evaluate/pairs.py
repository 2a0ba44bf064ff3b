"""Section A, second part: order in time by pairs, and of clips played backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reward_models.evaluate.estimate import UNKNOWN, Estimate, mean_of
from reward_models.evaluate.judge import ask_pairs, each, phi_along
from reward_models.evaluate.order_metrics import PairScores, negative_rate, voc_f1, voc_of_pairs, vroc
from reward_models.interface import LabelledEpisode, RewardModel
from reward_models.metrics import voc

STRIDE = 5
"""Frames between the two of a pair: from one to the next there is hardly anything to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backwards:
    """Section A asked in other ways: order in time on successes.

    Without pairs all but the first are not known.

    Attributes:
        voc_reversed: Mean VOC of the clip played backwards; -1 is good.
        voc_pairs: Mean VOC of Φ decoded from pairs `STRIDE` frames apart; +1 is good.
        vroc: The same, each pair asked the wrong way round; +1 is good.
        f1: Mean VOC-F1 of the two.
        negative_rate: Mean share of pairs, in their right order, with a score below 0.
    """

    voc_reversed: Estimate
    voc_pairs: Estimate
    vroc: Estimate
    f1: Estimate
    negative_rate: Estimate


def backwards(
    model: RewardModel, episodes: Sequence[LabelledEpisode], rng: np.random.Generator, refused: dict[str, str]
) -> Backwards:
    """Ask the model about successes, played backwards and in pairs; `refused` takes why it would not answer."""
    turned = mean_of(each(episodes, lambda episode: _turned(model, episode), refused), rng)
    meaning = model.capabilities.pair
    if meaning is None:
        return Backwards(voc_reversed=turned, voc_pairs=UNKNOWN, vroc=UNKNOWN, f1=UNKNOWN, negative_rate=UNKNOWN)
    rows = each(episodes, lambda episode: _by_pairs(model, episode, meaning), refused)
    voc_pairs, back, f1, negative = (mean_of(column, rng) for column in np.array(rows).reshape(-1, 4).T)
    return Backwards(voc_reversed=turned, voc_pairs=voc_pairs, vroc=back, f1=f1, negative_rate=negative)


def _turned(model: RewardModel, episode: LabelledEpisode) -> float:
    phi = phi_along(model, episode.instruction, episode.frames[::-1])
    return float(np.nan_to_num(voc(phi[np.isfinite(phi)]), nan=0.0))


def _by_pairs(model: RewardModel, episode: LabelledEpisode, meaning: PairScores) -> tuple[float, float, float, float]:
    """Return VOC, VROC, F1 and negative rate of one episode."""
    at = np.unique([*range(0, len(episode.frames), STRIDE), len(episode.frames) - 1])
    pairs = list(pairwise(episode.frames[i] for i in at))
    start, instruction = episode.frames[0], episode.instruction
    ahead = ask_pairs(model, instruction, start, pairs)
    back = ask_pairs(model, instruction, start, [(after, before) for before, after in pairs])
    there, again = (float(np.nan_to_num(v)) for v in (voc_of_pairs(ahead, meaning), vroc(back, meaning)))
    return there, again, voc_f1(there, again), negative_rate(ahead)
