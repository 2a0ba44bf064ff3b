"""Metrics of the order of frames in time by pair scores. See `reward_models.metrics.voc` for the plain one.

Section A, second part: order in time by pairs, and of clips played backwards. Three names that are
easily mixed up, all of a success:

- VOC: the clip as it is, Spearman of Φ with time; +1 is good;
- reversed VOC: the clip played backwards and scored as it is; -1 is good;
- VROC: the clip as it is, each pair asked the wrong way round; +1 is good.

Sources: VROC, F1 and NR by VLAC (Zhai et al., 2025, arXiv:2509.15937); VROC of hops by the released code of
Robo-Dopamine (Tan et al., 2025, arXiv:2512.23703).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from reward_models.decode import Semantics, decode
from reward_models.evaluate.estimate import UNKNOWN, Estimate, mean_of
from reward_models.evaluate.judge import ask_pairs, each, phi_along
from reward_models.interface import LabelledEpisode, RewardModel
from reward_models.metrics import voc
from reward_models.potential import knows_phi

PairScores = Semantics | Literal["sign"]
"""What pair scores mean, see `Capabilities`."""
STRIDE = 5
"""Frames between the two of a pair: from one to the next there is hardly anything to see."""


def voc_of_pairs(scores: np.ndarray, meaning: PairScores) -> float:
    """Return the VOC of Φ decoded from the scores of consecutive pairs (o_i, o_i+1), shape (T,).

    Unreadable ones are left out.

    Signs have no Φ: their running sum stands for it.
    """
    read = scores[np.isfinite(scores)]
    return voc(np.append(0.0, np.cumsum(read)) if meaning == "sign" else decode(read, start=0.0, semantics=meaning))


def vroc(scores: np.ndarray, meaning: PairScores) -> float:
    """Return the VROC: the VOC from the scores of the reversed pairs (o_i+1, o_i), in the order of i, shape (T,).

    *Remaining* scores and signs are antisymmetric: negated, accumulated from 0. A *hop* is not: the reverse of a first
    step out of the start is -1 however small the step, and negated it would end at 1 at once. Hops are accumulated from
    the last frame, where Φ is 1, back to the first.

    >>> round(vroc(np.array([-0.5, -0.5, -0.5]), "remaining"), 9), round(vroc(np.array([-1.0, -0.5, -0.3]), "hop"), 9)
    (1.0, 1.0)
    """
    scores = np.asarray(scores, dtype=np.float64)
    if meaning == "hop":
        return voc(decode(scores[np.isfinite(scores)][::-1], start=1.0, semantics=meaning)[::-1])
    return voc_of_pairs(-scores, meaning)


def voc_f1(forward: float, backward: float) -> float:
    """Return the harmonic mean of VOC and VROC.

    It is 0 unless both are above 0 (otherwise its sign would be by chance).

    >>> voc_f1(1.0, 0.5), voc_f1(0.9, -0.9)
    (0.6666666666666666, 0.0)
    """
    return 2 * forward * backward / (forward + backward) if forward > 0 and backward > 0 else 0.0


def negative_rate(scores: np.ndarray) -> float:
    """Return NR, the share of readable pair scores below 0 in a success; lower is better.

    >>> negative_rate(np.array([0.2, -0.1, np.nan, 0.3]))
    0.3333333333333333
    """
    known = np.asarray(scores, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float((known < 0).mean()) if len(known) else float("nan")


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
    turned = UNKNOWN
    if knows_phi(model.capabilities):
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
