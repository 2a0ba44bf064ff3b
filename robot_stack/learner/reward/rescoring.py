"""A large reward model that scores finished episodes behind the run, while the embedded one scores live.

Its scores come minutes late, out of order, twice or never; they join by frame under the large model's own version. That
version becomes the active one once it knows nearly all episodes; an episode that it does not know yet is then trained
on without shaping. No thread of the run waits for it.

Episodes are asked about one by one, so that the model's queue never overflows. Where it did not answer, because its
server was away, the episode is asked about again until it does, after ever longer times; what it has answered is not
asked again. The same holds where the disk refused the scores. Where it answered and could not be read, it is asked once
more; frames that stay unreadable are interpolated as long as they are few.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from reward_models.interface import Capabilities, ClipQuery, Instruction, PairQuery, Score
from reward_models.potential import READ_TRIES, Kind, Part, check_read, knows_phi, potential, questions, spread_out
from reward_models.service import ScoringService
from reward_models.vlm.registry import make_reward_model
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.labelled import recorded_frames, shown_task
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import RewardError, StackError, StoreError, error_text
from robot_stack.types.reward import EpisodeScores

log = logging.getLogger(__name__)

ENOUGH_KNOWN = 0.9
"""Share of the episodes that a version must have scored before it may shape the reward."""
WAITING = 100_000
"""Questions that may wait: those of one episode, however long."""
FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 120.0
"""Time after which an episode is asked about again that was not answered; it doubles from try to try."""


Name = TypeVar("Name")


class _Turn(NamedTuple):
    """An episode that is to be asked about, in the order of time, then of arrival."""

    due_s: float
    number: int
    episode_id: str
    asked: int
    unanswered: int


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
        first_retry_s: After which an episode is asked about again that was not answered.
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
        first_retry_s: float = FIRST_RETRY_S,
    ) -> None:
        self.version = version
        self._service = service
        self._can = can
        self._instruction = instruction
        self._read = read
        self._deliver = deliver
        self._every = every
        self._first_retry_s = first_retry_s
        self._news = threading.Condition()
        self._waiting: list[_Turn] = []
        self._turns = count()
        self._closed = False
        self._offered: set[str] = set()
        self.known: set[str] = set()
        self.progress: dict[str, np.ndarray] = {}
        """Episode that was scored -> its Φ per frame."""
        self.failed: dict[str, str] = {}
        """Episode -> why it has no scores; asked about again after a restart, or sooner where the disk refused."""
        self.away = ""
        """Why the model did not answer when it was asked last, "" if it did."""
        self.interpolated = 0
        """Frames asked about whose answer could not be read."""
        self._unscored = ""
        """Why the newest episode that was answered about has no scores, "" if it has."""
        self._unforeseen = ""
        self._thread = threading.Thread(target=self._work, name="rescore", daemon=True)

    @property
    def failure(self) -> str:
        """Return what the operator should know: an error that nobody foresaw, that the model is away, or unreadable."""
        if self._unforeseen or not self.away:
            return self._unforeseen or self._unscored
        return f"reward model {self.version} does not answer, its episodes are asked about again: {self.away}"

    @property
    def family(self) -> str:
        """Return the name of the model's family."""
        return family_of(self.version)

    def start(self) -> None:
        """Start the scoring service and the thread that asks it.

        Raises:
            RewardError: If the score cache cannot be used.
        """
        self._service.start()
        self._thread.start()

    def close(self) -> None:
        """Stop asking; open questions are given up."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._service.close()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def restore(self, known: Mapping[str, np.ndarray]) -> None:
        """Take the Φ of episodes that this version scored before a restart; they are not asked about again."""
        self.progress |= known
        self.known |= set(known)
        self._offered |= self.known

    def give_up(self) -> None:
        """Forget all episodes that wait, those that wait for a server too."""
        with self._news:
            self._waiting.clear()
        self.away = ""

    def offer(self, episode_id: str) -> None:
        """Offer a finished episode for scoring; offering it again changes nothing. Never waits."""
        if episode_id not in self._offered:
            self._offered.add(episode_id)
            self._put(episode_id, after_s=0.0)

    def ready(self, episode_ids: Sequence[str]) -> bool:
        """Return whether this version knows nearly all of these episodes."""
        return bool(episode_ids) and len(self.known & set(episode_ids)) >= ENOUGH_KNOWN * len(episode_ids)

    def _put(self, episode_id: str, *, after_s: float, asked: int = 0, unanswered: int = 0) -> None:
        turn = _Turn(time.monotonic() + after_s, next(self._turns), episode_id, asked, unanswered)
        with self._news:
            heapq.heappush(self._waiting, turn)
            self._news.notify_all()

    def _next(self) -> _Turn | None:
        """Wait for the next turn that is due; None once closed."""
        with self._news:
            while not self._closed:
                left_s = self._waiting[0].due_s - time.monotonic() if self._waiting else None
                if left_s is not None and left_s <= 0:
                    return heapq.heappop(self._waiting)
                self._news.wait(left_s)
            return None

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            try:
                self._take_turn(turn)
            except StoreError as error:
                self._not_kept(turn, error)
            except Exception as error:  # the top of this thread: an error costs one episode its scores, and is said
                if not self._closed:
                    self._fail(turn.episode_id, error)

    def _take_turn(self, turn: _Turn) -> None:
        """Ask about an episode and deliver its scores, or see to it that it is asked about again."""
        episode = self._read(turn.episode_id)
        frames = len(episode.arrays["proprio"])
        at = np.unique(np.append(np.arange(0, frames, self._every), frames - 1))
        shown = recorded_frames(episode)
        if len(at) < 2:
            raise RewardError(f"frames of {turn.episode_id} are {len(at)}, must be at least 2")
        asked = questions([shown[t] for t in at], self._instruction, self._can)
        scores = self._ask({name: (queries, kind) for name, kind, queries in asked.parts()})
        over = asked.over_gaps(_values(scores.get("steps", ())))
        led = self._ask({t: ([query], "pair") for t, (_, query) in over.items()})
        if self._closed:
            return
        given = [score for part in (*scores.values(), *led.values()) for score in part]
        lost = next((score for score in given if score.lost), None)
        if lost is not None:
            self._not_answered(turn, lost.raw)
            return
        self.away = ""
        if turn.asked + 1 < READ_TRIES and not all(score.valid for score in given):
            self._put(turn.episode_id, after_s=0.0, asked=turn.asked + 1)
            return
        decoded = self._decoded(episode, at, scores, {t: (over[t][0], score.value) for t, (score,) in led.items()})
        self._deliver(decoded)
        self.progress[turn.episode_id] = decoded.progress
        self._unscored = ""
        self.known.add(turn.episode_id)
        self.failed.pop(turn.episode_id, None)

    def _not_answered(self, turn: _Turn, why: str) -> None:
        """Put an episode off that the model did not answer; the operator hears of the first of an outage."""
        if not self.away:
            log.warning("reward model %s does not answer, its episodes are asked about again: %s", self.version, why)
        self.away = why
        self._put_off(turn)

    def _not_kept(self, turn: _Turn, error: StoreError) -> None:
        """Put an episode off that the disk did not give, or whose scores it did not take; the first time is said."""
        if turn.episode_id not in self.failed:
            self._fail(turn.episode_id, error)
        self._put_off(turn)

    def _put_off(self, turn: _Turn) -> None:
        """Put an episode back among those that wait, after twice the time of the last try."""
        after_s = min(self._first_retry_s * 2.0 ** min(turn.unanswered, 10), LONGEST_RETRY_S)
        self._put(turn.episode_id, after_s=after_s, asked=turn.asked, unanswered=turn.unanswered + 1)

    def _ask(
        self, asked: Mapping[Name, tuple[Sequence[PairQuery] | Sequence[ClipQuery], Kind]]
    ) -> dict[Name, list[Score]]:
        """Ask what stands under each name, and wait for the answers; this thread's only wait."""
        tickets = {name: self._service.submit(queries, kind) for name, (queries, kind) in asked.items()}
        found: dict[Name, list[Score]] = {}
        for name, ticket in tickets.items():
            while not ticket.wait(1.0):
                pass  # a service that ends, on whatever, resolves all that is open
            found[name] = ticket.scores or []
        return found

    def _decoded(
        self,
        episode: StoredEpisode,
        at: np.ndarray,
        scores: Mapping[Part, Sequence[Score]],
        over: Mapping[int, tuple[int, float]],
    ) -> EpisodeScores:
        """Decode the answers about the frames `at` of an episode, and `over` its gaps, into scores of all its frames.

        Raises:
            RewardError: If too few could be read.
        """
        answers = {name: _values(part) for name, part in scores.items()}
        success = answers.pop("done", np.full(len(at), np.nan))
        phi = potential(self._can, over=over, **answers)
        unread = next((score.raw for part in scores.values() for score in part if not score.valid), "")
        self.interpolated += check_read(phi, unread)
        frames = len(episode.arrays["proprio"])
        return EpisodeScores(
            episode_id=episode.header.episode_id,
            version=self.version,
            progress=spread_out(phi, at, frames).astype(np.float32),
            success=spread_out(success, at, frames).astype(np.float32),
        )

    def _fail(self, episode_id: str, error: Exception) -> None:
        """Keep and log why an episode has no scores; the operator hears of what nobody foresaw."""
        why = error_text(error)
        said = f"reward model {self.version} has no scores for {episode_id}: {why}"
        self._unscored = said
        if not isinstance(error, StackError):
            self._unforeseen = said
        self.failed[episode_id] = why
        log.warning("%s", said)


def family_of(version: str) -> str:
    """Return the name of a large model's family, given its version; "" for a live model's."""
    return version.rpartition("-")[0]


def _values(scores: Sequence[Score]) -> np.ndarray:
    return np.array([score.value for score in scores], np.float64)


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
    if not knows_phi(model.capabilities):
        raise RewardError(
            f"reward model {choice.name} says neither progress nor how far pairs are apart, must say one; take another"
        )
    instruction = shown_task(resolved.task.text, recorded_frames(demo))
    decides = f"{model.version} {model.capabilities.fusion} {instruction.key} {choice.every}"
    identity = hashlib.sha256(decides.encode()).hexdigest()[:16]
    return Rescorer(
        ScoringService(model, cache_path=folder / "large_scores.cache", queue_limit=WAITING),
        version=f"{model.name}-{identity}",
        can=model.capabilities,
        instruction=instruction,
        read=read,
        deliver=deliver,
        every=choice.every,
    )
