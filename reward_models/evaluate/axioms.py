"""Section E: rules that any honest Φ keeps, whatever the episode, checked by asking the model again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reward_models.decode import hop_between, step_hop, step_remaining
from reward_models.evaluate.estimate import Estimate, mean_of
from reward_models.evaluate.judge import ask_pairs, done_along, each, said_along, said_at_end
from reward_models.evaluate.order_metrics import PairScores
from reward_models.interface import Frame, LabelledEpisode, RewardModel
from robot_stack.types.errors import RewardError

HELD = 5
"""How often the last frame is shown once more."""
SAME = 1e-4
"""Φ that differs by less is the same: float32 sums depend on the size of a batch."""
HOPS = {"small": (0.02, 0.15), "medium": (0.15, 0.4), "large": (0.4, 1.0)}
"""True change of progress between two frames, by size; below the smallest there is no direction to be right about."""
TRIPLES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Axioms:
    """Section E of a report: the findings on a sample of the episodes.

    Of a model that knows no Φ, its probability of done is looked at instead.

    Attributes:
        causal: Editing what comes after a frame changes nothing at it or before.
        future_change: Largest |ΔΦ| or change of done that it made.
        deterministic: The same question has the same answer.
        repeat_change: Largest |ΔΦ| between two times of asking.
        hold_change: Mean |ΔΦ| after the last frame of a clip is shown `HELD` times more: nothing has happened.
        direction: Size of hop -> share of pairs of frames that are put in the right order in progress.
        macro_residual: Mean |S(0,2) - S(0,1) - S(1,2)| of pair scores decoded to changes of Φ; NaN for a model without
            pairs, whose S are differences of one Φ and always add up, and for one that only says which is further.
        reverse_residual: Mean distance of a pair's score from what its reverse implies: |c(a,b) + c(b,a)| where scores
            are antisymmetric, |h(q,p) - (Φp - Φq) / Φq| for hops; NaN without pairs.
    """

    causal: bool
    future_change: float
    deterministic: bool
    repeat_change: float
    hold_change: Estimate
    direction: dict[str, float]
    macro_residual: float
    reverse_residual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The findings on one episode: largest changes, mean change by holding, directions (N, 2), residuals (M, 2)."""

    repeat: float
    future: float
    hold: float
    directions: np.ndarray
    residuals: np.ndarray


def axioms(
    model: RewardModel, episodes: Sequence[LabelledEpisode], rng: np.random.Generator, refused: dict[str, str]
) -> Axioms:
    """Ask the model about these episodes, and about changed ones.

    Args:
        episodes: A sample of all kinds, at least one.
        refused: Takes why an episode could not be asked about.

    Raises:
        RewardError: If the model answers about none of them.
    """
    found = each(episodes, lambda episode: _about(model, episode, rng), refused)
    if not found:
        raise RewardError(f"{model.name} answers nothing about changed episodes: {next(iter(refused.values()))}")
    directions = np.concatenate([one.directions for one in found])
    residuals = np.concatenate([one.residuals for one in found])
    return Axioms(
        causal=max(one.future for one in found) <= SAME,
        future_change=max(one.future for one in found),
        deterministic=max(one.repeat for one in found) == 0.0,
        repeat_change=max(one.repeat for one in found),
        hold_change=mean_of([one.hold for one in found], rng),
        direction={name: _mean(_within(directions, *bounds)) for name, bounds in HOPS.items()},
        macro_residual=_mean(residuals[:, 0]),
        reverse_residual=_mean(residuals[:, 1]),
    )


def _about(model: RewardModel, episode: LabelledEpisode, rng: np.random.Generator) -> _Found:
    phi = said_along(model, episode.instruction, episode.frames)
    again = said_along(model, episode.instruction, episode.frames)
    semantics = model.capabilities.pair
    return _Found(
        repeat=_largest(phi, again),
        future=_future_change(model, episode, phi, rng),
        hold=_hold_change(model, episode),
        directions=_directions(episode, phi, rng),
        residuals=np.zeros((0, 2)) if semantics is None else _residuals(model, episode, semantics, phi, rng),
    )


def _hold_change(model: RewardModel, episode: LabelledEpisode) -> float:
    """Return the mean |ΔΦ| by holding the frame at a third, two thirds and the end."""
    clips = [episode.frames[: max(2, round(share * len(episode.frames)))] for share in (1 / 3, 2 / 3, 1.0)]
    held = [clip + clip[-1:] * HELD for clip in clips]
    phi = said_at_end(model, [(episode.instruction, frames) for frames in (*clips, *held)])
    return _mean(np.abs(phi[3:] - phi[:3]))


def _within(directions: np.ndarray, low: float, high: float) -> np.ndarray:
    return directions[(directions[:, 0] >= low) & (directions[:, 0] < high), 1]


def _future_change(model: RewardModel, episode: LabelledEpisode, phi: np.ndarray, rng: np.random.Generator) -> float:
    """Return the largest change of Φ or done up to a drawn frame when all later frames become negatives."""
    last = int(rng.integers(1, max(2, len(episode.frames) - 1)))
    edited = episode.frames[: last + 1] + tuple(_negative(frame) for frame in episode.frames[last + 1 :])
    change = _largest(phi[: last + 1], said_along(model, episode.instruction, edited)[: last + 1])
    if not model.capabilities.done:
        return change
    before = done_along(model, episode.instruction, episode.frames)[: last + 1]
    return max(change, _largest(before, done_along(model, episode.instruction, edited)[: last + 1]))


def _negative(frame: Frame) -> Frame:
    return replace(frame, images={name: 255 - image for name, image in frame.images.items()})


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference of two series; infinite where only one of the two is readable."""
    if (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    both = np.isfinite(one)
    return float(np.abs(one - other)[both].max(initial=0.0))


def _directions(episode: LabelledEpisode, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the true change of drawn pairs of frames, and 1 if Φ changes in the same direction else 0, (N, 2)."""
    found = []
    for i, j in _ordered(rng, len(phi), 2):
        true, said = episode.progress[j] - episode.progress[i], phi[j] - phi[i]
        if np.isfinite(true) and np.isfinite(said):
            found.append((abs(true), float(np.sign(true) == np.sign(said))))
    return np.array(found).reshape(-1, 2)


def _residuals(
    model: RewardModel, episode: LabelledEpisode, meaning: PairScores, phi: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the macro and reverse residuals of some triples of frames, shape (N, 2)."""
    triples = _ordered(rng, len(phi), 3)
    frames = episode.frames
    asked = [pair for a, b, c in triples for pair in ((a, b), (b, c), (a, c), (b, a))]
    pairs = [(frames[i], frames[j]) for i, j in asked]
    scores = ask_pairs(model, episode.instruction, frames[0], pairs).reshape(-1, 4)
    found = [
        _residuals_of(float(phi[a]), *row, meaning=meaning)
        for (a, _, _), row in zip(triples, scores.tolist(), strict=True)
    ]
    return np.array(found).reshape(-1, 2)


def _residuals_of(p: float, ab: float, bc: float, ac: float, ba: float, *, meaning: PairScores) -> tuple[float, float]:
    """Return both residuals of one triple whose first frame is at progress p.

    They are NaN where a score or p is not readable.

    >>> _residuals_of(0.0, 0.5, 0.5, 0.75, -0.5, meaning="remaining")
    (0.0, 0.0)
    """
    if meaning == "sign":  # says nothing of how far, so there is nothing to add up
        return float("nan"), abs(ab + ba)
    if np.isnan([p, ab, bc, ac, ba]).any():
        return float("nan"), float("nan")
    step = step_remaining if meaning == "remaining" else step_hop
    q = step(p, ab)
    macro = abs(step(p, ac) - step(q, bc))
    if meaning == "remaining":
        return macro, abs(ab + ba)
    return macro, abs(ba - hop_between(q, p))


def _ordered(rng: np.random.Generator, frames: int, count: int) -> list[list[int]]:
    if frames < count:
        return []
    return [sorted(rng.choice(frames, count, replace=False).tolist()) for _ in range(TRIPLES)]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
