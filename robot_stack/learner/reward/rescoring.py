"""A large reward model that scores finished episodes behind the run, while the embedded one scores live.

Its scores come minutes late, out of order, twice or never; they join by frame under the large model's own version. That
version becomes the active one once it knows nearly all episodes; an episode that it does not know yet is then trained
on without shaping. No thread of the run waits for it.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from reward_models.decode import backward_anchor, decode, forward_anchor, fuse
from reward_models.interface import Capabilities, ClipQuery, Frame, Instruction, PairQuery, Score
from reward_models.service import ScoringService
from reward_models.tickets import Ticket
from reward_models.vlm.grm import anchor_queries
from reward_models.vlm.registry import make_reward_model
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.labelled import recorded_frames
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import RewardError, StackError, error_text
from robot_stack.types.reward import EpisodeScores

log = logging.getLogger(__name__)

REFERENCE_FRAMES = 11
"""Images of a demonstration that are kept for models that look at one; each takes as many as it was made for."""
NO_PROGRESS = "neither progress nor how far pairs are apart, must know one; choose another"
ENOUGH_KNOWN = 0.9
"""Share of the episodes that a version must have scored before it may shape the reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Questions about T' frames of an episode, each None where the model cannot answer it.

    Attributes:
        steps: From each frame to the next, T' - 1 of them.
        forward: From the first frame to each.
        backward: From the goal to each.
        progress: About each prefix.
        done: About each prefix.
    """

    steps: list[PairQuery] | None
    forward: list[PairQuery] | None
    backward: list[PairQuery] | None
    progress: list[ClipQuery] | None
    done: list[ClipQuery] | None


def questions(frames: Sequence[Frame], instruction: Instruction, can: Capabilities) -> Anchors:
    """Build the questions that a model is asked about an episode; the anchors of a hop model need a goal image."""
    steps = forward = backward = None
    if can.pair == "hop" and instruction.goal is not None:
        steps, forward, backward = anchor_queries(instruction, frames)
    elif can.pair is not None:
        steps = [
            PairQuery(instruction=instruction, start=frames[0], before=before, after=after)
            for before, after in pairwise(frames)
        ]
    prefixes = [ClipQuery(instruction=instruction, frames=tuple(frames[: t + 1])) for t in range(len(frames))]
    return Anchors(
        steps=steps,
        forward=forward,
        backward=backward,
        progress=prefixes if can.progress else None,
        done=prefixes if can.done else None,
    )


def potential(
    can: Capabilities,
    *,
    steps: np.ndarray | None,
    forward: np.ndarray | None,
    backward: np.ndarray | None,
    progress: np.ndarray | None,
) -> np.ndarray:
    """Compute Φ of T' frames from the answers: fused anchors where there are any, else progress, else decoded steps.

    Raises:
        RewardError: If the model has none of them.
    """
    if steps is not None and forward is not None and backward is not None:
        return fuse(steps, forward_anchor(forward), backward_anchor(backward), mode="gated")
    if progress is not None:
        return progress
    if steps is not None and can.pair in ("remaining", "hop"):
        return decode(steps, start=0.0, semantics=can.pair)
    raise RewardError(f"reward model knows {NO_PROGRESS}")


def spread_out(known: np.ndarray, at: np.ndarray, frames: int) -> np.ndarray:
    """Interpolate the scores of all frames from those at some, linearly between valid ones; float32, shape (frames,).

    >>> spread_out(np.array([0.0, 1.0, np.nan]), np.array([0, 2, 4]), 5).tolist()
    [0.0, 0.5, 1.0, nan, nan]
    """
    line = np.interp(np.arange(frames), at, known)  # NaN on either side makes NaN between
    return np.asarray(line, np.float32)


class Rescorer:
    """A background client that asks the large model about each finished episode.

    Args:
        service: Started by `start`, closed by `close`.
        version: Of the model, legal as the name of a folder.
        can: What the model can be asked.
        instruction: Of the task; goal and reference from a demonstration where the model needs them.
        read: Reads an episode with its images.
        deliver: Takes scores of an episode, from another thread.
        every: Frames from one question to the next; the last frame is always asked about.
    """

    def __init__(
        self,
        service: ScoringService,
        *,
        version: str,
        can: Capabilities,
        instruction: Instruction,
        read: Callable[[str], StoredEpisode],
        deliver: Callable[[EpisodeScores], None],
        every: int,
    ) -> None:
        self.version = version
        self._service = service
        self._can = can
        self._instruction = instruction
        self._read = read
        self._deliver = deliver
        self._every = every
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._offered: set[str] = set()
        self.known: set[str] = set()
        self.failed: dict[str, str] = {}
        """Episode -> why it has no scores; it is asked about again after a restart."""
        self.failure = ""
        """The newest error that nobody foresaw, for the operator, or ""."""
        self._thread = threading.Thread(target=self._work, name="rescore", daemon=True)

    def start(self) -> None:
        """Start the scoring service and the thread that asks it.

        Raises:
            RewardError: If the score cache cannot be used.
        """
        self._service.start()
        self._thread.start()

    def close(self) -> None:
        """Stop asking; open questions are given up."""
        self._waiting.put(None)
        self._service.close()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def restore(self, known: Iterable[str]) -> None:
        """Mark the episodes that this version has scored already, before a restart."""
        self.known |= set(known)
        self._offered |= self.known

    def offer(self, episode_id: str) -> None:
        """Offer a finished episode for scoring; offering it again changes nothing. Never waits."""
        if episode_id not in self._offered:
            self._offered.add(episode_id)
            self._waiting.put(episode_id)

    def ready(self, episode_ids: Sequence[str]) -> bool:
        """Return whether this version knows nearly all of these episodes."""
        return bool(episode_ids) and len(self.known & set(episode_ids)) >= ENOUGH_KNOWN * len(episode_ids)

    def _work(self) -> None:
        while (episode_id := self._waiting.get()) is not None:
            try:
                self._ask(self._read(episode_id))
            except Exception as error:  # the top of this thread: an error costs one episode its scores, and is said
                self._fail(episode_id, error)

    def _ask(self, episode: StoredEpisode) -> None:
        count = len(episode.arrays["proprio"])
        at = np.unique(np.append(np.arange(0, count, self._every), count - 1))
        shown = recorded_frames(episode)
        frames = [shown[t] for t in at]
        if len(frames) < 2:
            raise RewardError(f"frames of {episode.header.episode_id} are {len(frames)}, must be at least 2")
        asked = questions(frames, self._instruction, self._can)
        parts: list[tuple[str, str, Sequence[PairQuery] | Sequence[ClipQuery]]] = [
            (name, kind, part)
            for name, kind, part in (
                ("steps", "pair", asked.steps),
                ("forward", "pair", asked.forward),
                ("backward", "pair", asked.backward),
                ("progress", "progress", asked.progress),
                ("done", "done", asked.done),
            )
            if part is not None
        ]
        _Collector(parts, lambda answers: self._decode(episode, at, answers)).submit(self._service)

    def _decode(self, episode: StoredEpisode, at: np.ndarray, answers: dict[str, np.ndarray]) -> None:
        """Deliver the scores that the answers about an episode make; called in the service's thread, never raises."""
        episode_id = episode.header.episode_id
        try:
            self._deliver(self._scores(episode, at, answers))
        except Exception as error:  # the service's thread must end neither on a full disk nor on anything else
            self._fail(episode_id, error)
        else:
            self.known.add(episode_id)

    def _scores(self, episode: StoredEpisode, at: np.ndarray, answers: dict[str, np.ndarray]) -> EpisodeScores:
        """Decode the answers about the frames `at` of an episode into scores of all its frames.

        Raises:
            RewardError: If no answer could be read.
        """
        phi = potential(
            self._can,
            steps=answers.get("steps"),
            forward=answers.get("forward"),
            backward=answers.get("backward"),
            progress=answers.get("progress"),
        )
        if not np.isfinite(phi).any():
            raise RewardError("no answer could be read")
        count = len(episode.arrays["proprio"])
        success = answers.get("done", np.full(len(at), np.nan))
        return EpisodeScores(
            episode_id=episode.header.episode_id,
            version=self.version,
            progress=np.clip(spread_out(phi, at, count), 0.0, 1.0),
            success=np.clip(spread_out(success, at, count), 0.0, 1.0),
        )

    def _fail(self, episode_id: str, error: Exception) -> None:
        """Keep and log why an episode has no scores; the operator hears of what nobody foresaw."""
        why = error_text(error)
        said = f"reward model {self.version} has no scores for {episode_id}: {why}"
        if not isinstance(error, StackError):
            self.failure = said
        self.failed[episode_id] = why
        log.warning("%s", said)


def make_rescorer(
    folder: Path,
    resolved: ResolvedRun,
    settings: Any,
    demo: StoredEpisode,
    *,
    read: Callable[[str], StoredEpisode],
    deliver: Callable[[EpisodeScores], None],
) -> Rescorer:
    """Build the large model that a run asks for, with its goal and reference from one demonstration.

    Raises:
        RewardError: If its weights, a package or the acceptance of its licence is missing.
    """
    choice = resolved.run.reward.rescore
    assert choice is not None
    model = make_reward_model(choice.name, settings)
    if not model.capabilities.progress and model.capabilities.pair not in ("remaining", "hop"):
        raise RewardError(f"reward model {choice.name} knows {NO_PROGRESS}")
    frames = recorded_frames(demo)
    picked = np.unique(np.linspace(0, len(frames) - 1, REFERENCE_FRAMES).astype(int))
    instruction = Instruction(text=resolved.task.text, goal=frames[-1], reference=tuple(frames[t] for t in picked))
    return Rescorer(
        ScoringService(model, cache_path=folder / "large_scores.cache"),
        version=f"{model.name}-{hashlib.sha256(model.version.encode()).hexdigest()[:16]}",
        can=model.capabilities,
        instruction=instruction,
        read=read,
        deliver=deliver,
        every=choice.every,
    )


class _Collector:
    """A wait for several tickets without a thread: the last one to finish hands all answers on."""

    def __init__(
        self,
        parts: Sequence[tuple[str, str, Sequence[PairQuery] | Sequence[ClipQuery]]],
        on_all: Callable[[dict[str, np.ndarray]], None],
    ) -> None:
        self._parts = parts
        self._on_all = on_all
        self._left = len(parts)
        self._lock = threading.Lock()
        self._answers: dict[str, np.ndarray] = {}

    def submit(self, service: ScoringService) -> None:
        for name, kind, queries in self._parts:
            service.submit(queries, kind, on_done=self._taker(name))  # type: ignore[arg-type]

    def _taker(self, name: str) -> Callable[[Ticket], None]:
        def take(ticket: Ticket) -> None:
            scores: Sequence[Score] = ticket.scores or ()
            with self._lock:
                self._answers[name] = np.array([score.value for score in scores])
                self._left -= 1
                last = self._left == 0
            if last:
                self._on_all(self._answers)

        return take
