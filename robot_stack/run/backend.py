"""What the gRPC server calls: everything goes to disk first, then to the learner's inbox."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.run.scoring import Scorer
from robot_stack.transport.backend import LearnerStatus
from robot_stack.types.event import Label
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeHeader, Step

FLUSH_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCut:
    """An episode whose actor will not come back; the store has closed it at its newest frame."""

    episode_id: str


Arrival = EpisodeHeader | Step | Label | EpisodeCut


class ParamsBoard:
    """The newest parameters, and who waits for them."""

    def __init__(self) -> None:
        self._params: Params | None = None
        self._news = threading.Condition()

    def publish(self, params: Params) -> None:
        """Replace what was there."""
        with self._news:
            self._params = params
            self._news.notify_all()

    def after(self, version: int, timeout_s: float) -> Params | None:
        """Newest parameters above `version`, or None once `timeout_s` has passed."""
        with self._news:
            self._news.wait_for(lambda: self._params is not None and self._params.version > version, timeout_s)
            params = self._params
        return params if params is not None and params.version > version else None


class Backend:
    """Implements `transport.backend.LearnerBackend` on an episode store.

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
        self._inbox: deque[Arrival] = deque()
        self._order = threading.Lock()
        self._stop = threading.Event()
        self.arrived = threading.Event()
        self.on_durable: Callable[[], None] = lambda: None
        self.failure = ""
        """Why the disk last refused, or ""."""
        self._flusher = threading.Thread(target=self._flush_forever, name="flush", daemon=True)

    def start(self) -> None:
        """Flush in the background from now on."""
        self._flusher.start()

    def stop(self) -> None:
        """Flush once more and end the thread."""
        self._stop.set()
        self._flusher.join(5.0)

    def hello(self, actor_id: str) -> int:
        """Frames of the run that are safe."""
        return sum(self._store.durable(e) + 1 for e in (*self._store.episodes, *self._store.unfinished))

    def begin(self, header: EpisodeHeader) -> None:
        """Durable on return; what this actor began before and never ended is closed, since it will not come back."""
        with self._order:
            self._store.begin(header)
            self._hand_over(header)
            for episode_id in self._store.unfinished:
                if episode_id < header.episode_id and self._store.header(episode_id).actor == header.actor:
                    self._store.close_unfinished(episode_id)
                    if episode_id in self._store.episodes:
                        self._hand_over(EpisodeCut(episode_id=episode_id))

    def append(self, step: Step) -> None:
        """Into the store; only new steps go on to the learner, in the order in which the store took them."""
        with self._order:
            if self._store.append(step):
                self._hand_over(step)

    def durable(self, episode_id: str) -> int:
        """See the store."""
        return self._store.durable(episode_id)

    def label(self, label: Label) -> None:
        """Durable on return."""
        with self._order:
            if self._store.append_label(label):
                self._hand_over(label)

    def params_after(self, version: int, timeout_s: float) -> Params | None:
        """See `ParamsBoard`."""
        return self._board.after(version, timeout_s)

    def scores_after(self, cursor: int, timeout_s: float) -> tuple[int, Sequence[LiveScore]]:
        """See `Scorer`."""
        return self._scorer.after(cursor, timeout_s)

    def status(self) -> LearnerStatus:
        """From the learner."""
        return self._status()

    def take(self) -> list[Arrival]:
        """Everything that arrived since the last call, in order."""
        self.arrived.clear()
        taken = []
        while self._inbox:
            taken.append(self._inbox.popleft())
        return taken

    def _hand_over(self, arrival: Arrival) -> None:
        self._inbox.append(arrival)
        self.arrived.set()

    def _flush_forever(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        try:
            self._store.flush()
            self.failure = ""
        except Exception as error:  # the top of this thread: nothing is lost from memory, the next flush tries again
            self.failure = str(error)
        self.on_durable()
