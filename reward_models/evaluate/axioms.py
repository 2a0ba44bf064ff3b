"""Section E: what must hold of any honest Φ, whatever the episode, found out by asking the model again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reward_models.decode import Semantics, step_hop, step_remaining
from reward_models.evaluate.estimate import Estimate, mean_of
from reward_models.evaluate.judge import ask_pairs, done_along, phi_along, phi_at_end
from reward_models.interface import Frame, LabelledEpisode, RewardModel

HELD = 5
"""How often the last frame is shown once more."""
SAME = 1e-4
"""Φ that differs by less is the same: float32 sums depend on the size of a batch."""
HOPS = {"small": (0.02, 0.15), "medium": (0.15, 0.4), "large": (0.4, 1.0)}
"""True change of progress between two frames, by size; below the smallest there is no direction to be right about."""
TRIPLES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Axioms:
    """What was found on a sample of the episodes.

    Attributes:
        causal: Editing what comes after a frame changes nothing at it or before.
        future_change: Largest |ΔΦ| or change of done that it made.
        deterministic: The same question has the same answer.
        repeat_change: Largest |ΔΦ| between two times of asking.
        hold_change: Mean |ΔΦ| after the last frame of a clip is shown `HELD` times more: nothing has happened.
        direction: Size of hop -> share of pairs of frames that are put in the right order in progress.
        macro_residual: Mean |S(0,2) - S(0,1) - S(1,2)| of pair scores decoded to changes of Φ; NaN for a model without
            pairs, whose S are differences of one Φ and always add up.
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


def axioms(model: RewardModel, episodes: Sequence[LabelledEpisode], rng: np.random.Generator) -> Axioms:
    """Ask the model about these episodes, and about changed ones.

    Args:
        model: Answers.
        episodes: A sample of all kinds, at least one.
        rng: Chooses frames.
    """
    repeats, futures, directions, residuals = [], [], [], []
    for episode in episodes:
        phi = phi_along(model, episode.instruction, episode.frames)
        again = phi_along(model, episode.instruction, episode.frames)
        repeats.append(_largest(phi, again))
        futures.append(_future_change(model, episode, phi, rng))
        directions += _directions(episode, phi, rng)
        if model.capabilities.pair is not None:
            residuals.append(_residuals(model, episode, model.capabilities.pair, phi, rng))
    found = np.array(directions).reshape(-1, 2)
    pairs = np.concatenate(residuals) if residuals else np.full((1, 2), np.nan)
    return Axioms(
        causal=max(futures) <= SAME,
        future_change=max(futures),
        deterministic=max(repeats) == 0.0,
        repeat_change=max(repeats),
        hold_change=mean_of(hold_changes(model, episodes), rng),
        direction={
            name: _mean(found[(found[:, 0] >= low) & (found[:, 0] < high), 1]) for name, (low, high) in HOPS.items()
        },
        macro_residual=_mean(pairs[:, 0]),
        reverse_residual=_mean(pairs[:, 1]),
    )


def hold_changes(model: RewardModel, episodes: Sequence[LabelledEpisode]) -> np.ndarray:
    """|ΔΦ| by holding the frame at a third, two thirds and the end of each episode; mean of an episode, shape (N,)."""
    clips, held = [], []
    for episode in episodes:
        for share in (1 / 3, 2 / 3, 1.0):
            frames = episode.frames[: max(2, round(share * len(episode.frames)))]
            clips.append((episode.instruction, frames))
            held.append((episode.instruction, frames + frames[-1:] * HELD))
    changes = np.abs(phi_at_end(model, held) - phi_at_end(model, clips)).reshape(-1, 3)
    return np.array([_mean(row) for row in changes])


def _future_change(model: RewardModel, episode: LabelledEpisode, phi: np.ndarray, rng: np.random.Generator) -> float:
    """Largest change at frames up to one in the middle when all frames behind it become negatives of themselves."""
    last = int(rng.integers(1, max(2, len(episode.frames) - 1)))
    edited = episode.frames[: last + 1] + tuple(_negative(frame) for frame in episode.frames[last + 1 :])
    change = _largest(phi[: last + 1], phi_along(model, episode.instruction, edited)[: last + 1])
    if not model.capabilities.done:
        return change
    before = done_along(model, episode.instruction, episode.frames)[: last + 1]
    return max(change, _largest(before, done_along(model, episode.instruction, edited)[: last + 1]))


def _negative(frame: Frame) -> Frame:
    return replace(frame, images={name: 255 - image for name, image in frame.images.items()})


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference; infinite where only one of the two is readable."""
    if (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    both = np.isfinite(one)
    return float(np.abs(one - other)[both].max(initial=0.0))


def _directions(episode: LabelledEpisode, phi: np.ndarray, rng: np.random.Generator) -> list[tuple[float, float]]:
    """(true change, 1 if Φ changes in the same direction else 0) of pairs of frames."""
    found = []
    for i, j in _ordered(rng, len(phi), 2):
        true, said = episode.progress[j] - episode.progress[i], phi[j] - phi[i]
        if np.isfinite(true) and np.isfinite(said):
            found.append((abs(true), float(np.sign(true) == np.sign(said))))
    return found


def _residuals(
    model: RewardModel, episode: LabelledEpisode, semantics: Semantics, phi: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Macro and reverse residuals of some triples of frames, shape (N, 2)."""
    triples = _ordered(rng, len(phi), 3)
    frames = episode.frames
    asked = [pair for a, b, c in triples for pair in ((a, b), (b, c), (a, c), (b, a))]
    pairs = [(frames[i], frames[j]) for i, j in asked]
    scores = ask_pairs(model, episode.instruction, frames[0], pairs).reshape(-1, 4)
    step = step_remaining if semantics == "remaining" else step_hop
    found = []
    for (a, _, _), (ab, bc, ac, ba) in zip(triples, scores, strict=True):
        if np.isnan([phi[a], ab, bc, ac, ba]).any():
            continue
        p = float(phi[a])
        q = step(p, ab)
        if semantics == "remaining":
            reverse = abs(ab + ba)
        else:
            implied = (p - q) / q if p < q else (p - q) / (1 - q) if q < 1 else 0.0
            reverse = abs(ba - implied)
        found.append((abs(step(p, ac) - step(q, bc)), reverse))
    return np.array(found).reshape(-1, 2)


def _ordered(rng: np.random.Generator, frames: int, count: int) -> list[list[int]]:
    if frames < count:
        return []
    return [sorted(rng.choice(frames, count, replace=False).tolist()) for _ in range(TRIPLES)]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
