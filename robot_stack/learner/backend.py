"""The learner's side of the gRPC link: everything goes to disk first, then to the learner's inbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from robot_stack.learner.reward.scoring import Scorer
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.transport.access.bounds import MAX_INT64, MAX_OPEN_EPISODES
from robot_stack.transport.access.refusals import Refusal, RefusedError
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.roster import Roster
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step

FLUSH_S = 0.5
LEAST_PAUSE_S = 0.05
"""Between two flushes, in which steps are taken."""
INBOX_BYTES = 256 << 20
"""What may wait for the learner; beyond it the actors' steps stay in their spools."""
PLAIN_BYTES = 4096
"""Of a header, a label or a cut, at most: a note and a few names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCut:
    """An episode that the store has closed at its newest frame: its actor began another, or a step was refused.

    Attributes:
        gone: Whether it had no frame, so that there is nothing of it.
    """

    episode_id: str
    gone: bool


Arrival = EpisodeHeader | Step | Label | EpisodeCut


class ParamsBoard:
    """A board with the policy's newest parameters, on which readers wait for newer ones."""

    def __init__(self) -> None:
        self._params: Params | None = None
        self._news = threading.Condition()

    def publish(self, params: Params) -> None:
        """Replace the parameters on the board and wake whoever waits for them."""
        with self._news:
            self._params = params
            self._news.notify_all()

    def after(self, version: int, timeout_s: float) -> Params | None:
        """Return the newest parameters above `version`, or None once `timeout_s` has passed."""
        with self._news:
            self._news.wait_for(lambda: self._params is not None and self._params.version > version, timeout_s)
            params = self._params
        return params if params is not None and params.version > version else None


class Backend:
    """A learner's backend on an episode store; implements `transport.backend.LearnerBackend`.

    Args:
        store: Open; only this object writes to it, from any thread.
        scorer: Where live scores come from.
        board: Where parameters come from.
        status: What the learner is doing.
    """

    def __init__(
        self,
        *,
        spec: Spec,
        task: str,
        run_id: str,
        store: EpisodeStore,
        scorer: Scorer,
        board: ParamsBoard,
        status: Callable[[], LearnerStatus],
    ) -> None:
        self.spec, self.task, self.run_id = spec, task, run_id
        self._store = store
        self._scorer = scorer
        self._board = board
        self._status = status
        self.roster = Roster()
        self._inbox: list[Arrival] = []
        self._inbox_bytes = 0
        self._received = 0
        self._counted = 0
        self._room = threading.Condition()
        self._order = threading.Lock()
        self._cutting: set[str] = set()
        self._stop = threading.Event()
        self.arrived = threading.Event()
        self.on_durable: Callable[[], None] = lambda: None
        self.failure = ""
        """Why the disk last refused, or ""."""
        self._flusher = threading.Thread(target=self._flush_forever, name="flush", daemon=True)

    def start(self) -> None:
        """Start the thread that flushes the store to disk."""
        self._flusher.start()

    def stop(self) -> None:
        """Flush the store once more and end the thread."""
        self._stop.set()
        self._flusher.join(5.0)

    def hello(self) -> int:
        """Return how many frames of the run are safe on disk."""
        return sum(self._store.durable(e) + 1 for e in (*self._store.episodes, *self._store.unfinished))

    def next_number(self, actor_id: str) -> int:
        """Return one above the number of every episode of that actor which is or was in the store, or has a label.

        So no new one takes the name of another, also if the actor's own count is gone.
        """
        held = (*self._store.episodes, *self._store.unfinished, *self._store.quarantined)
        names = {*held, *(label.episode_id for label in self._store.labels)}
        parts = (name.split("-", 2) for name in names)
        own = (int(part[0]) for part in parts if part[-1] == actor_id and part[0].isdecimal() and len(part) == 3)
        return min(1 + max(own, default=-1), MAX_INT64)

    def wait_room(self, timeout_s: float) -> bool:
        """Wait until less than `INBOX_BYTES` wait for the learner; False once `timeout_s` has passed."""
        with self._room:
            return self._room.wait_for(lambda: self._inbox_bytes < INBOX_BYTES, timeout_s)

    def begin(self, header: EpisodeHeader) -> bool:
        """Start an episode, durable on return, and close those that its actor began before and never ended.

        Raises:
            SpecError: If the header does not fit, or too many later ones of its actor are open.
        """
        with self._order:
            own = [name for name in self._store.unfinished if self._store.header(name).actor == header.actor]
            later = sum(name > header.episode_id for name in own)
            if later >= MAX_OPEN_EPISODES:
                raise SpecError(
                    f"number of open episodes of {header.actor!r} behind {header.episode_id} is {later}, must be below "
                    f"{MAX_OPEN_EPISODES}; end them, or begin one behind them, which closes them"
                )
            fresh = self._store.begin(header)
            self._hand_over(header)
            for name in own:
                if name < header.episode_id:
                    self._cut(name)
            return fresh

    def owner(self, episode_id: str) -> str | None:
        """Return the actor of an episode that has begun and not ended, None of another."""
        return None if self._closed(episode_id) else self._store.header(episode_id).actor

    def append(self, step: Step) -> bool:
        """Append a step to the store; new ones go on to the learner, in the order in which the store took them."""
        name = step.episode_id
        with self._order:
            held = self._store.frames(name)
            try:
                fresh = self._store.append(step)
            finally:  # a last step may be held though the disk does not close its episode yet: sent again it is not new
                if self._store.frames(name) > held:
                    self._hand_over(step)
            if not fresh and step.index > (last := self._store.durable(name)) and self._closed(name):
                raise SpecError(
                    f"step index of {name} is {step.index}, must be at most {last}: the episode was closed there, "
                    "since its actor began another or a step was refused; the next episode is taken"
                )
            return fresh

    def cut(self, episode_id: str) -> None:
        """Close an episode at its newest frame, durable on return; harmless if it is closed."""
        with self._order:
            if episode_id in self._store.unfinished:
                self._cut(episode_id)

    def durable(self, episode_id: str) -> int:
        """Return the highest step index of an episode that is safe on disk, -1 for none."""
        return self._store.durable(episode_id)

    def label(self, label: Label, *, by_actor: bool = False) -> None:
        """Append a verdict to the store, durable on return; a new one goes on to the learner.

        Raises:
            RefusedError: If an actor judges an episode that was closed before its end: it has seen more than is here.
        """
        with self._order:
            if by_actor and label.verdict is not Verdict.DISCARD and self._store.is_cut(label.episode_id):
                raise RefusedError(
                    Refusal.CUT,
                    f"verdict of an actor on {label.episode_id} is {label.verdict}, must be {Verdict.DISCARD}: the "
                    f"episode was closed at its frame {self._store.durable(label.episode_id)}, before its end; judge "
                    "what is recorded of it in the episode browser",
                )
            if self._store.append_label(label):
                self._hand_over(label)

    def mark(self, mark: StageMark) -> None:
        """Append a stage mark to the store, durable on return; the next fit of the reward model reads it there."""
        self._store.append_mark(mark)

    def params_after(self, version: int, timeout_s: float) -> Params | None:
        """Return the newest parameters above `version`, or None once `timeout_s` has passed."""
        return self._board.after(version, timeout_s)

    def scores_after(self, cursor: int, timeout_s: float) -> tuple[int, Sequence[LiveScore]]:
        """Return the next cursor and the live scores since `cursor`; waits up to `timeout_s` for some."""
        return self._scorer.after(cursor, timeout_s)

    def status(self) -> LearnerStatus:
        """Return the learner's status, with the status of each actor.

        Counters say too how much has arrived since this start, and how much of it the rest of the status knows of.
        """
        with self._room:
            arrivals = {"received": float(self._received), "counted": float(self._counted)}
        status = self._status()
        counters = {**status.counters, **arrivals}
        return replace(status, counters=counters, actors=self.roster.statuses())

    def take(self) -> list[Arrival]:
        """Return everything that arrived since the last call, in order.

        Call it only once that which the last call returned has been counted.
        """
        self.arrived.clear()
        with self._room:
            self._counted = self._received - len(self._inbox)
            taken, self._inbox, self._inbox_bytes = self._inbox, [], 0
            self._room.notify_all()
        return taken

    def _hand_over(self, arrival: Arrival) -> None:
        with self._room:
            self._inbox.append(arrival)
            self._received += 1
            self._inbox_bytes += _size(arrival)
        self.arrived.set()

    def _closed(self, episode_id: str) -> bool:
        return episode_id not in self._store.unfinished

    def _cut(self, episode_id: str) -> None:
        self._cutting.add(episode_id)
        self._store.close_unfinished(episode_id)
        self._tell_cut()

    def _tell_cut(self) -> None:
        """Tell the learner of the episodes that were cut, once closed on disk: a full disk may do so later."""
        for episode_id in sorted(self._cutting - set(self._store.unfinished)):
            self._cutting.discard(episode_id)
            self._hand_over(EpisodeCut(episode_id=episode_id, gone=episode_id not in self._store.episodes))

    def _flush_forever(self) -> None:
        due_s = time.monotonic() + FLUSH_S
        while not self._stop.wait(max(LEAST_PAUSE_S, due_s - time.monotonic())):
            due_s = time.monotonic() + FLUSH_S  # from its start: with many actors a flush itself takes about as long
            self._flush()
        self._flush()

    def _flush(self) -> None:
        try:
            try:
                self._store.flush()
            finally:  # one file that the disk refuses keeps no episode open
                with self._order:
                    self._tell_cut()
            self.failure = ""
        except Exception as error:  # the top of this thread: nothing is lost from memory, the next flush tries again
            self.failure = str(error)
        self.on_durable()


def _size(arrival: Arrival) -> int:
    """Return the bytes of an arrival's arrays; one without any counts too, so that a flood of them is bounded."""
    if not isinstance(arrival, Step):
        return PLAIN_BYTES
    return arrival.observation.proprio.nbytes + sum(image.nbytes for image in arrival.observation.images.values())
