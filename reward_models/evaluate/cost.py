"""Section H: the time and the number of questions that an evaluation costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reward_models.evaluate.judge import phi_along, said_along
from reward_models.interface import ClipQuery, Frame, Instruction, LabelledEpisode, PairQuery, RewardModel, Score
from reward_models.potential import Kind, knows_phi, questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Section H of a report: times of Φ alone, on frames that the model has not seen, so that no cache answers.

    Attributes:
        ms_per_frame: Wall time per frame when frames come one by one, as on a robot: mean.
        ms_p50: The same, median.
        ms_p95: The same, 95th percentile.
        ms_per_frame_batched: Wall time per frame when a whole episode is asked about at once.
        queries_per_frame: Questions that one frame takes, repetitions of unreadable ones included.
        queries: Questions of the whole evaluation.
        images: Images that they showed, each time they were shown.
    """

    ms_per_frame: float
    ms_p50: float
    ms_p95: float
    ms_per_frame_batched: float
    queries_per_frame: float
    queries: int
    images: int


class Counted:
    """A model that counts the queries and images it is shown; implements `RewardModel`."""

    def __init__(self, model: RewardModel) -> None:
        self._model = model
        self.name, self.version, self.capabilities = model.name, model.version, model.capabilities
        self.queries = self.images = 0

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Count the queries and pass them on to the model."""
        self.queries += len(queries)
        self.images += sum(len(query.before.images) + len(query.after.images) for query in queries)
        return self._model.score_pairs(queries)

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Count the queries and pass them on to the model."""
        self._count(queries)
        return self._model.score_progress(queries)

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Count the queries and pass them on to the model."""
        self._count(queries)
        return self._model.score_done(queries)

    def _count(self, queries: Sequence[ClipQuery]) -> None:
        self.queries += len(queries)
        looks_at = self.capabilities.history
        self.images += sum(min(looks_at, len(query.frames)) * len(query.frames[-1].images) for query in queries)


def cost(counted: Counted, episode: LabelledEpisode, rng: np.random.Generator) -> Cost:
    """Time a model on one episode, after two frames that are not counted."""
    ask_along = phi_along if knows_phi(counted.capabilities) else said_along
    ask_along(counted, episode.instruction, unseen(episode.frames[:2], rng))
    frames = unseen(episode.frames, rng)
    alone_s = [_newest_s(counted, episode.instruction, frames[: t + 1]) for t in range(1, len(frames))]
    frames = unseen(episode.frames, rng)
    before = counted.queries
    begun = time.perf_counter()
    ask_along(counted, episode.instruction, frames)
    batched_s = time.perf_counter() - begun
    return Cost(
        ms_per_frame=1e3 * float(np.mean(alone_s)),
        ms_p50=1e3 * float(np.median(alone_s)),
        ms_p95=1e3 * float(np.percentile(alone_s, 95)),
        ms_per_frame_batched=1e3 * batched_s / len(frames),
        queries_per_frame=(counted.queries - before) / len(frames),
        queries=counted.queries,
        images=counted.images,
    )


def _newest_s(counted: Counted, instruction: Instruction, frames: tuple[Frame, ...]) -> float:
    """Ask what the newest of the frames adds to the questions; return how long it took, in seconds."""
    only_done = not knows_phi(counted.capabilities)
    can = counted.capabilities if only_done else replace(counted.capabilities, done=False)
    parts = questions(frames, instruction, can).parts()
    asks: dict[Kind, Callable[[Any], list[Score]]] = {
        "pair": counted.score_pairs, "progress": counted.score_progress, "done": counted.score_done,
    }  # fmt: skip
    begun = time.perf_counter()
    for _, kind, queries in parts:
        asks[kind](queries[-1:])
    return time.perf_counter() - begun


def unseen(frames: Sequence[Frame], rng: np.random.Generator) -> tuple[Frame, ...]:
    """Flip the last bit of a few entries of each image: other content, nothing to be seen."""
    fresh = []
    for frame in frames:
        images = {name: image.copy() for name, image in frame.images.items()}
        for image in images.values():
            image.reshape(-1)[rng.integers(image.size, size=8)] ^= 1
        fresh.append(replace(frame, images=images))
    return tuple(fresh)
