"""The questions of an evaluation: each episode is put to a model, and its answers stand beside the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from reward_models.decode import decode
from reward_models.evaluate.done_metrics import DoneRule, latched_at
from reward_models.interface import (
    ClipQuery,
    Frame,
    Instruction,
    LabelledEpisode,
    PairQuery,
    RewardModel,
    Score,
    Unsupported,
)
from robot_stack.types.errors import RewardError

Query = TypeVar("Query")
Answer = TypeVar("Answer")
Clip = tuple[Instruction, tuple[Frame, ...]]

CLASSES = {
    **dict.fromkeys(("near_miss", "drop", "reverse", "wrong_object"), "fail"),
    **dict.fromkeys(("empty_hand", "left_beside", "missing", "invisible"), "apart"),
}
"""Kinds that are told apart in the list of episodes and counted together in the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The answers of a model along an episode of K frames, beside the truth.

    Attributes:
        phi: Φ per frame, float64, shape (K,), NaN where unreadable.
        done: Probability of done, same; Φ itself of a model that is never asked.
        allowed: Whether the gate of the done rule is open, bool, same.
        truth: True progress, same, NaN where not known.
        done_at: First frame that shows the finished task; None without success.
        latched: Frame at which the rule says done; None if never.
        latched_ungated: The same with the gate always open.
    """

    name: str
    kind: str
    success: bool
    phi: np.ndarray = field(repr=False)
    done: np.ndarray = field(repr=False)
    allowed: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)
    done_at: int | None
    latched: int | None
    latched_ungated: int | None

    @property
    def group(self) -> str:
        """Return the class of the kind: "success", "partial", "fail", "apart", "stall", "mismatch", or the kind."""
        return CLASSES.get(self.kind, self.kind)

    @property
    def final(self) -> float:
        """Return Φ of the last frame."""
        return float(self.phi[-1])

    @property
    def known(self) -> np.ndarray:
        """Return a mask of the frames whose Φ is readable, bool, shape (K,)."""
        return np.isfinite(self.phi)


def judge(model: RewardModel, episode: LabelledEpisode, rule: DoneRule) -> Judged:
    """Ask a model about every frame of an episode.

    Raises:
        RewardError: If the model cannot be asked about it.
    """
    phi = phi_along(model, episode.instruction, episode.frames)
    done = done_along(model, episode.instruction, episode.frames) if model.capabilities.done else phi
    return from_scores(episode, phi, done, rule)


def from_scores(episode: LabelledEpisode, phi: np.ndarray, done: np.ndarray, rule: DoneRule) -> Judged:
    """Put known answers beside the truth: of a recorded run, or of a model that looks at nothing.

    Args:
        phi: Φ per frame, shape (K,).
        done: Probability of done per frame, shape (K,).
    """
    allowed = np.array([rule.gate is None or rule.gate(frame) for frame in episode.frames])
    return Judged(
        name=episode.name,
        kind=episode.kind,
        success=episode.success,
        phi=np.asarray(phi, dtype=np.float64),
        done=np.asarray(done, dtype=np.float64),
        allowed=allowed,
        truth=episode.progress,
        done_at=episode.done_at,
        latched=latched_at(done, rule, allowed),
        latched_ungated=latched_at(done, rule),
    )


def each(
    episodes: Sequence[LabelledEpisode], ask: Callable[[LabelledEpisode], Answer], refused: dict[str, str]
) -> list[Answer]:
    """Ask about each episode and return the answers; `refused` takes why a model would not, and the rest goes on."""
    found = []
    for episode in episodes:
        try:
            found.append(ask(episode))
        except RewardError as error:
            refused[episode.name] = str(error)
    return found


def thinned(episode: LabelledEpisode, every: int) -> LabelledEpisode:
    """Keep every n-th frame of an episode, and its last, for models too slow to be asked about all."""
    if every == 1:
        return episode
    kept = np.unique([*range(0, len(episode.frames), every), len(episode.frames) - 1])
    return replace(
        episode,
        frames=tuple(episode.frames[i] for i in kept),
        done_at=None if episode.done_at is None else int(np.searchsorted(kept, episode.done_at)),
        progress=episode.progress[kept],
    )


def phi_along(model: RewardModel, instruction: Instruction, frames: tuple[Frame, ...]) -> np.ndarray:
    """Return Φ of every frame, each from its own past, float64, shape (K,): by clips, else decoded from pairs.

    Raises:
        RewardError: If the model knows neither, or lacks what it needs.
    """
    model.capabilities.check(instruction, frames)
    if model.capabilities.progress:
        return ask_clips(model, model.score_progress, [(instruction, frames[: t + 1]) for t in range(len(frames))])
    if model.capabilities.pair is None:
        raise Unsupported(f"{model.name} scores neither progress nor pairs, must score one of them to be evaluated")
    if model.capabilities.pair == "sign":
        raise Unsupported(f"{model.name} says which of two frames is further and not how far, must say how far as well")
    scores = ask_pairs(model, instruction, frames[0], list(pairwise(frames)))
    return decode(scores, start=0.0, semantics=model.capabilities.pair)


def done_along(model: RewardModel, instruction: Instruction, frames: tuple[Frame, ...]) -> np.ndarray:
    """Return the probability of done at every frame, float64, shape (K,)."""
    return ask_clips(model, model.score_done, [(instruction, frames[: t + 1]) for t in range(len(frames))])


def phi_at_end(model: RewardModel, clips: Sequence[Clip]) -> np.ndarray:
    """Return Φ of the last frame of each clip, float64, shape (N,)."""
    if not model.capabilities.progress:
        return np.array([phi_along(model, instruction, frames)[-1] for instruction, frames in clips])
    for instruction, frames in clips:
        model.capabilities.check(instruction, frames)
    return ask_clips(model, model.score_progress, clips)


def done_at_end(model: RewardModel, clips: Sequence[Clip]) -> np.ndarray:
    """Return the probability of done at the end of each clip, float64, shape (N,).

    A model that cannot tell is asked for Φ instead.
    """
    return ask_clips(model, model.score_done, clips) if model.capabilities.done else phi_at_end(model, clips)


def ask_clips(
    model: RewardModel, ask: Callable[[Sequence[ClipQuery]], list[Score]], clips: Sequence[Clip]
) -> np.ndarray:
    """Ask about clips, in batches that the model takes; return the values, float64, shape (N,)."""
    queries = [ClipQuery(instruction=instruction, frames=frames) for instruction, frames in clips]
    return _answers(model, ask, queries, lowest=0.0)


def ask_pairs(
    model: RewardModel, instruction: Instruction, start: Frame, pairs: Sequence[tuple[Frame, Frame]]
) -> np.ndarray:
    """Ask about pairs (before, after) of an episode; return the values, float64, shape (N,)."""
    queries = [PairQuery(instruction=instruction, before=before, after=after, start=start) for before, after in pairs]
    return _answers(model, model.score_pairs, queries, lowest=-1.0)


def _answers(
    model: RewardModel, ask: Callable[[Sequence[Query]], list[Score]], queries: Sequence[Query], *, lowest: float
) -> np.ndarray:
    batch = model.capabilities.max_batch
    scores = [score for i in range(0, len(queries), batch) for score in ask(queries[i : i + batch])]
    if len(scores) != len(queries):
        raise RewardError(f"{model.name} gave {len(scores)} answers, must give {len(queries)}, one a question")
    values = np.array([score.value for score in scores], dtype=np.float64)
    outside = values[(values < lowest) | (values > 1.0) | np.isinf(values)]
    if len(outside):
        raise RewardError(f"score of {model.name} is {outside[0]}, must be in [{lowest:g}, 1] or NaN")
    return values
