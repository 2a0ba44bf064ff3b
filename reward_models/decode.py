"""Decoding of answers about pairs of frames to progress Φ: recursions, anchors, fusion. Pure numpy, no model.

A pair score says how a second frame stands to a first, in [-1, 1]. What a score means differs between models:

- *remaining* (VLAC): the share of what was left that has been done, c > 0; its reverse is antisymmetric, c < 0;
- *hop* (GRM): the share of what was left if things got better, the share of what had been done if they got worse.

An unreadable answer is NaN. Φ is not known behind it, since nobody knows what happened there, until an answer about a
pair leads over the gap.

Sources: VLAC (Zhai et al., 2025, arXiv:2509.15937); Robo-Dopamine (Tan et al., 2025, arXiv:2512.23703), section 3.
Deviations are said where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

Semantics = Literal["remaining", "hop"]
Fusion = Literal["mean", "gated"]

LEAST_DONE = 0.5
"""Φ that the members of an ensemble are compared at, at least: near 0 they would contradict each other by nothing."""
SURE_UP_TO = 0.99
"""Φ above which a *remaining* score has no exact inverse: nothing is left to take a share of."""


def remaining_between(phi: float, next_phi: float) -> float:
    """Return the *remaining* score of a pair whose progress is known, in [-1, 1].

    >>> remaining_between(0.5, 0.75), remaining_between(0.75, 0.5)
    (0.5, -0.5)
    """
    if next_phi >= phi:
        return (next_phi - phi) / (1 - phi) if phi < 1 else 0.0
    return -remaining_between(next_phi, phi)


def step_remaining(phi: float, score: float) -> float:
    r"""Return Φ after a *remaining* score c: :math:`\Phi + (1 - \Phi) c`, for c < 0 the inverse of such a step.

    Below one half the inverse would leave [0, 1] for quite ordinary scores; there Φ falls by its own share, and above
    it never falls below 0.1 in one step.

    >>> step_remaining(0.0, 0.5), step_remaining(0.5, 0.5), step_remaining(0.75, -0.5)
    (0.5, 0.75, 0.5)

    Source: the branch "mix_f" of VLAC's released code. Deviations: the result is in [0, 1]; a score of 0 changes
    nothing, also at Φ = 1; a score of -1 divides by nothing.
    """
    if score >= 0:
        return _unit(phi + (1 - phi) * score)
    if phi > 0.5:
        kept = 1 + score
        left = max(1 - phi, 1 - SURE_UP_TO)
        return _unit(max(0.1, 1 - left / kept)) if kept > 0 else 0.1
    return _unit(phi * (1 + score))


def hop_between(phi: float, next_phi: float) -> float:
    """Return the *hop* of a pair whose progress is known, in [-1, 1].

    >>> hop_between(0.5, 0.75), hop_between(0.5, 0.25)
    (0.5, -0.5)

    Source: Robo-Dopamine, equation of the hop label, with Φ of start and goal 0 and 1.
    """
    if next_phi >= phi:
        return (next_phi - phi) / (1 - phi) if phi < 1 else 0.0
    return (next_phi - phi) / phi


def step_hop(phi: float, hop: float) -> float:
    """Return Φ after a hop in [-1, 1]; it stays in [0, 1], since it is a mean of Φ and a border.

    >>> step_hop(0.5, 0.5), step_hop(0.5, -0.5)
    (0.75, 0.25)
    """
    return _unit(phi + (1 - phi) * hop if hop >= 0 else phi + phi * hop)


_STEPS: dict[Semantics, Callable[[float, float], float]] = {"remaining": step_remaining, "hop": step_hop}


def gaps(steps: np.ndarray) -> dict[int, int]:
    """Find the frames behind what could not be read in consecutive steps, shape (T,), each with the last known before.

    A step alone that could not be read leaves out the frame it leads to, several the frames between them.

    >>> gaps(np.array([0.1, np.nan, np.nan, 0.1])), gaps(np.array([0.1, np.nan, 0.1]))
    ({3: 1}, {3: 1})
    """
    unread = [*np.isnan(steps), False]
    first, found = 0, {}
    for t, missing in enumerate(unread):
        if missing:
            continue
        if t > first and max(t, first + 2) <= len(steps):
            found[max(t, first + 2)] = first
        first = t + 1
    return found


def decode(
    scores: np.ndarray, *, start: float, semantics: Semantics, over: Mapping[int, tuple[int, float]] | None = None
) -> np.ndarray:
    """Decode the progress along an episode from the scores of its consecutive pairs.

    Args:
        scores: Of (o_t, o_t+1), in [-1, 1], NaN where unreadable, shape (T,).
        start: Φ of the first frame, in [0, 1].
        semantics: What a score means.
        over: Frame -> an earlier one and the score of the two, in place of its step: see `gaps`.

    Returns:
        Φ per frame, float64, shape (T+1,), in [0, 1]; NaN behind an unreadable score that none leads over.

    >>> decode(np.array([0.5, 0.5, -0.5]), start=0.0, semantics="remaining").tolist()
    [0.0, 0.5, 0.75, 0.5]

    Raises:
        ValueError: If a score or the start is outside its range.
    """
    scores = _scores(scores)
    if not 0 <= start <= 1:
        raise ValueError(f"start is {start}, must be in [0, 1]")
    step, over = _STEPS[semantics], over or {}
    phi = np.full(len(scores) + 1, np.nan)
    phi[0] = start
    for t in range(1, len(phi)):
        before, score = over.get(t, (t - 1, float(scores[t - 1])))
        if not np.isnan(score) and not np.isnan(phi[before]):
            phi[t] = step(float(phi[before]), score)
    return phi


def forward_anchor(hops: np.ndarray) -> np.ndarray:
    """Return Φ from hops of (first frame, o_t), shape (T,).

    The start is 0, so a hop is progress itself; below it, Φ is 0.
    """
    return np.clip(_scores(hops), 0.0, 1.0)


def backward_anchor(hops: np.ndarray) -> np.ndarray:
    """Return Φ from hops of (goal, o_t), shape (T,).

    The goal is 1, so a hop h is what is missing, and Φ is 1 + h in [0, 1].
    """
    return np.clip(1.0 + _scores(hops), 0.0, 1.0)


def trust(forward: np.ndarray, backward: np.ndarray, *, alpha: float, least: float = 1e-6) -> np.ndarray:
    r"""Return the trust in two anchors, :math:`w = \exp(-\alpha \Delta^2)`, in [0, 1], shape (T,).

    Their disagreement is :math:`\Delta = |\Phi_B - \Phi_F| / \bar\Phi`, with a :math:`\bar\Phi` of at least `least`.

    Two anchors that contradict each other have seen something that the model does not know.

    >>> trust(np.array([0.5]), np.array([0.5]), alpha=20.0).tolist()
    [1.0]

    Source: Robo-Dopamine, the gate for inputs out of distribution; alpha 20 in its simulations.
    """
    mean = (forward + backward) / 2
    return np.asarray(np.exp(-alpha * np.square(np.abs(backward - forward) / np.maximum(mean, least))))


def hold_back(phi: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Let Φ follow `phi` by the share `weight` of what it lacks, frame by frame, both shape (T,).

    So it freezes where the weight is 0, instead of paying for what the model does not know.

    >>> hold_back(np.array([0.2, 0.6, 1.0]), np.array([1.0, 0.0, 0.5])).tolist()
    [0.2, 0.2, 0.6]
    """
    held = np.array(phi, dtype=np.float64)
    for t in range(1, len(held)):
        held[t] = held[t - 1] + weight[t] * (held[t] - held[t - 1])
    return held


def gated(progress: np.ndarray, spread: np.ndarray, *, alpha: float) -> np.ndarray:
    """Hold back the Φ of an ensemble where its members contradict each other; float64, shape (T,).

    Args:
        progress: Φ, in [0, 1], shape (T,).
        spread: Standard deviation of the members' Φ, shape (T,).
        alpha: How fast trust falls with disagreement.

    >>> gated(np.array([0.2, 0.6]), np.array([0.0, 0.0]), alpha=20.0).tolist()
    [0.2, 0.6]

    Source: Robo-Dopamine's gate; deviations: the two anchors are Φ less and plus the standard deviation, and their
    mean, Φ, counts as `LEAST_DONE` at least.
    """
    return hold_back(progress, trust(progress - spread, progress + spread, alpha=alpha, least=LEAST_DONE))


def fuse(
    hops: np.ndarray, forward: np.ndarray, backward: np.ndarray, *, mode: Fusion, alpha: float = 20.0
) -> np.ndarray:
    r"""Fuse three anchors into one Φ.

    *mean*: :math:`(\Phi_I + \Phi_F + \Phi_B) / 3`. *gated*: a step of half of w towards their agreement,
    :math:`\Phi + \frac{w}{2} (\bar\Phi - \Phi + \Delta\Phi)`, so that Φ freezes where the anchors disagree. With w = 1
    that weighs them ¼, ¼ and ½, not a third each.

    Args:
        hops: Of (o_t, o_t+1), shape (T,): the incremental anchor, decoded from the fused Φ before it.
        forward: Φ_F per frame, shape (T+1,).
        backward: Φ_B per frame, shape (T+1,).
        mode: Which of the two.
        alpha: How fast trust falls with disagreement.

    Returns:
        Φ per frame, float64, shape (T+1,), in [0, 1]; NaN where an anchor is NaN; the first is the mean of Φ_F and
        Φ_B.

    Raises:
        ValueError: If shapes do not fit or a hop is outside [-1, 1].

    Source: Robo-Dopamine, section 3; its released code has no fusion.
    """
    hops = _scores(hops)
    if not len(forward) == len(backward) == len(hops) + 1:
        raise ValueError(
            f"anchors have {len(forward)} and {len(backward)} frames, must have one more than the {len(hops)} hops"
        )
    weight = trust(forward, backward, alpha=alpha)
    agreed = (forward + backward) / 2
    phi = np.empty(len(forward))
    phi[0] = agreed[0]
    known = 0.0 if np.isnan(phi[0]) else float(phi[0])
    for t, hop in enumerate(hops, start=1):
        if np.isnan(hop) or np.isnan(agreed[t]):
            phi[t] = np.nan
            continue
        incremental = step_hop(known, float(hop))
        if mode == "mean":
            known = (incremental + float(forward[t]) + float(backward[t])) / 3
        else:
            known += float(weight[t]) / 2 * (float(agreed[t]) + incremental - 2 * known)
        phi[t] = known = _unit(known)
    return phi


def _scores(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"scores have shape {scores.shape}, must be (T,)")
    known = scores[~np.isnan(scores)]
    if len(known) and (np.abs(known) > 1).any():
        raise ValueError(f"scores span {known.min()} to {known.max()}, must be in [-1, 1] or NaN")
    return scores


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
