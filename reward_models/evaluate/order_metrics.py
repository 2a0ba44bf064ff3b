"""Metrics of the order of frames in time by pair scores. See `reward_models.metrics.voc` for the plain one.

Three names that are easily mixed up, all of a success:

- VOC: the clip as it is, Spearman of Φ with time; +1 is good;
- reversed VOC: the clip played backwards and scored as it is; -1 is good;
- VROC: the clip as it is, each pair asked the wrong way round; +1 is good.

Sources: VROC, F1 and NR by VLAC (Zhai et al., 2025, arXiv:2509.15937); VROC of hops by the released code of
Robo-Dopamine (Tan et al., 2025, arXiv:2512.23703).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from reward_models.decode import Semantics, decode
from reward_models.metrics import voc

PairScores = Semantics | Literal["sign"]
"""What pair scores mean, see `Capabilities`."""


def voc_of_pairs(scores: np.ndarray, meaning: PairScores) -> float:
    """Return the VOC of Φ decoded from the scores of consecutive pairs (o_i, o_i+1), shape (T,).

    Unreadable ones are left out.

    Signs have no Φ: their running sum stands for it.
    """
    return _voc(_running_sum(scores) if meaning == "sign" else decode(scores, start=0.0, semantics=meaning))


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
        return _voc(decode(scores[::-1], start=1.0, semantics=meaning)[::-1])
    return voc_of_pairs(-scores, meaning)


def _running_sum(signs: np.ndarray) -> np.ndarray:
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(signs))])
    total[1:][np.isnan(signs)] = np.nan
    return total


def _voc(phi: np.ndarray) -> float:
    return voc(phi[np.isfinite(phi)])


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
