"""The questions of an evaluation: each episode is put to a model, and its answers stand beside the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

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
from reward_models.potential import READ_TRIES, check_read, knows_phi, potential, questions, spread_out
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
        phi: Φ per frame, float64, shape (K,), as a run would have it; NaN throughout of a model that knows none.
        unreadable: Frames whose Φ could not be read and was interpolated.
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
    unreadable: int
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
    """Ask a model about every frame of an episode: for Φ and done where it knows them.

    Raises:
        RewardError: If the model cannot be asked about it.
    """
    can, unreadable = model.capabilities, 0
    phi = done = np.full(len(episode.frames), np.nan)
    if knows_phi(can):
        phi = phi_as_read(model, episode.instruction, episode.frames)
        unreadable = check_read(phi)
        phi = done = spread_out(phi, np.arange(len(phi)), len(phi))
    elif not can.done and can.pair is None:
        raise Unsupported(f"{model.name} scores neither progress nor pairs nor done, must score one of them")
    if can.done:
        done = done_along(model, episode.instruction, episode.frames)
    return from_scores(episode, phi, done, rule, unreadable=unreadable)


def from_scores(
    episode: LabelledEpisode, phi: np.ndarray, done: np.ndarray, rule: DoneRule, *, unreadable: int = 0
) -> Judged:
    """Put known answers beside the truth: of a recorded run, or of a model that looks at nothing.

    Args:
        phi: Φ per frame, shape (K,).
        done: Probability of done per frame, shape (K,).
        unreadable: Frames whose Φ was interpolated.
    """
    allowed = np.array([rule.gate is None or rule.gate(frame) for frame in episode.frames])
    return Judged(
        name=episode.name,
        kind=episode.kind,
        success=episode.success,
        phi=np.asarray(phi, dtype=np.float64),
        unreadable=unreadable,
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
    """Return Φ of every frame as a run would shape by it, float64, shape (K,).

    Each is from its own past, but for those that could not be read, which are interpolated.

    Raises:
        RewardError: If the model knows no Φ, lacks what it needs, or too few of its answers could be read.
    """
    phi = phi_as_read(model, instruction, frames)
    check_read(phi)
    return spread_out(phi, np.arange(len(phi)), len(phi))


def phi_as_read(model: RewardModel, instruction: Instruction, frames: tuple[Frame, ...]) -> np.ndarray:
    """Return Φ of every frame, each from its own past alone, float64, shape (K,), NaN where unreadable.

    Raises:
        RewardError: If the model knows no Φ, or lacks what it needs.
    """
    can = model.capabilities
    can.check(instruction, frames)
    if not knows_phi(can):
        raise Unsupported(
            f"{model.name} does not say how far an episode is, must say progress or how far pairs are apart"
        )
    asks = {"pair": (model.score_pairs, -1.0), "progress": (model.score_progress, 0.0)}
    asked, parts, over = questions(frames, instruction, replace(can, done=False)), {}, {}
    for name, kind, queries in asked.parts():
        ask, lowest = asks[kind]
        parts[name] = _answers(model, ask, queries, lowest=lowest)  # type: ignore[arg-type]
    if "steps" in parts and (led := asked.over_gaps(parts["steps"])):
        values = _answers(model, model.score_pairs, [query for _, query in led.values()], lowest=-1.0)
        over = {t: (first, float(value)) for (t, (first, _)), value in zip(led.items(), values, strict=True)}
    return potential(can, over=over, **parts)


def said_along(model: RewardModel, instruction: Instruction, frames: tuple[Frame, ...]) -> np.ndarray:
    """Return Φ of every frame as it was read, or of a model that knows none the probability of done; shape (K,).

    It is NaN throughout of a model that only says which of two frames is further.
    """
    if knows_phi(model.capabilities):
        return phi_as_read(model, instruction, frames)
    return done_along(model, instruction, frames) if model.capabilities.done else np.full(len(frames), np.nan)


def said_at_end(model: RewardModel, clips: Sequence[Clip]) -> np.ndarray:
    """Return what `said_along` says of the last frame of each clip, float64, shape (N,)."""
    if knows_phi(model.capabilities):
        return phi_at_end(model, clips)
    return ask_clips(model, model.score_done, clips) if model.capabilities.done else np.full(len(clips), np.nan)


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
    return ask_clips(model, model.score_done, clips) if model.capabilities.done else said_at_end(model, clips)


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
    """Ask questions in batches, once more those whose answer cannot be read; return the values, shape (N,)."""
    values, left = np.full(len(queries), np.nan), list(range(len(queries)))
    for _ in range(READ_TRIES):
        if left:
            values[left] = _asked_once(model, ask, [queries[i] for i in left], lowest=lowest)
            left = [i for i in left if np.isnan(values[i])]
    return values


def _asked_once(
    model: RewardModel, ask: Callable[[Sequence[Query]], list[Score]], queries: Sequence[Query], *, lowest: float
) -> np.ndarray:
    batch = model.capabilities.max_batch
    scores = [score for i in range(0, len(queries), batch) for score in ask(queries[i : i + batch])]
    if len(scores) != len(queries):
        raise RewardError(f"{model.name} gave {len(scores)} answers, must give {len(queries)}, one a question")
    lost = next((score for score in scores if score.lost), None)
    if lost is not None:
        raise RewardError(f"{model.name} left a question without an answer, must answer all: {lost.raw}")
    values = np.array([score.value for score in scores], dtype=np.float64)
    outside = values[(values < lowest) | (values > 1.0) | np.isinf(values)]
    if len(outside):
        raise RewardError(f"score of {model.name} is {outside[0]}, must be in [{lowest:g}, 1] or NaN")
    return values
