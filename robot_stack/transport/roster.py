"""The roster of actors that record into the learner: who is connected, since when not, and what each has sent."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from robot_stack.transport.access.bounds import MAX_KNOWN_ACTORS
from robot_stack.transport.access.refusals import ActorTakenError, Refusal, RefusedError

RECENT_ACKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatus:
    """The status of one actor, counted since the learner started.

    Attributes:
        connected: True while its recording stream is open.
        last_seen_s: Seconds since its newest item, or since it left.
        params_version: Behind its newest step, 0 for none.
        steps: Taken.
        bytes: Received, with what was sent again.
        resends: Items that were here already.
        refused: Items that were not taken: not finite, of an episode that is closed.
        held: Times its stream had to wait for the learner to catch up.
        reconnects: Connections after the first.
        ack_p50_ms, ack_p99_ms: From receiving a step to acknowledging it, over the newest 1000.
    """

    actor_id: str
    connected: bool
    last_seen_s: float
    params_version: int
    episodes: int
    steps: int
    bytes: int
    resends: int
    refused: int
    held: int
    reconnects: int
    ack_p50_ms: float
    ack_p99_ms: float


class ActorRecord:
    """A count of what one actor has sent since the learner started; its recording streams count here, one at a time.

    Attributes:
        left: Whether it ended its newest stream itself, as an actor does that is through; False where one broke.
    """

    def __init__(self, actor_id: str, now_s: float) -> None:
        self.actor_id = actor_id
        self.episodes = self.steps = self.bytes = self.resends = self.refused = self.held = 0
        self.params_version = 0
        self.connections = 0
        self.streams = 0
        self.life = ""
        self.peer = ""
        self.left = False
        self.seen_s = now_s
        self.acks_s: deque[float] = deque(maxlen=RECENT_ACKS)

    def status(self, now_s: float) -> ActorStatus:
        """Return the counts of this actor as a status."""
        acks_ms = 1e3 * np.array([*self.acks_s])
        p50, p99 = np.percentile(acks_ms, (50, 99)) if len(acks_ms) else (0.0, 0.0)
        return ActorStatus(
            actor_id=self.actor_id,
            connected=self.streams > 0,
            last_seen_s=now_s - self.seen_s,
            params_version=self.params_version,
            episodes=self.episodes,
            steps=self.steps,
            bytes=self.bytes,
            resends=self.resends,
            refused=self.refused,
            held=self.held,
            reconnects=max(self.connections - 1, 0),
            ack_p50_ms=float(p50),
            ack_p99_ms=float(p99),
        )


class Roster:
    """The roster of all actors of this life of the learner."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self._records: dict[str, ActorRecord] = {}
        self._mutex = threading.Lock()

    def check(self, actor_id: str, life: str) -> None:
        """Raise unless a process of that name may record: no other of the same name is connected."""
        with self._mutex:
            self._check(actor_id, life)

    def _check(self, actor_id: str, life: str) -> None:
        record = self._records.get(actor_id)
        if record is None and len(self._records) >= MAX_KNOWN_ACTORS:
            raise RefusedError(
                Refusal.FULL,
                f"number of actor names is {len(self._records)}, must be at most {MAX_KNOWN_ACTORS} in one life of the "
                f"learner; give {actor_id!r} a name that has recorded before, or restart the learner",
            )
        if record is not None and record.streams and record.life != life:
            raise ActorTakenError(
                f"actor {actor_id!r} is connected already, from {record.peer}, must be one process; "
                "stop the other, or start this one with another --id"
            )

    @contextmanager
    def stream(self, actor_id: str, life: str, peer: str) -> Iterator[ActorRecord]:
        """Yield the record to count in while a recording stream of the actor is open."""
        with self._mutex:  # looked at and taken in one: of two processes that start together one is refused
            self._check(actor_id, life)
            record = self._records.setdefault(actor_id, ActorRecord(actor_id, self.now_s()))
            record.life, record.peer, record.left = life, peer, False
            record.streams += 1
            record.connections += 1
        try:
            yield record
        finally:
            with self._mutex:
                record.streams -= 1
                record.seen_s = self.now_s()

    def deserted_s(self) -> float:
        """Return the seconds since the last actor left; 0 if one is connected, is cut off, or none has come yet."""
        with self._mutex:
            if not self._records or any(record.streams or not record.left for record in self._records.values()):
                return 0.0
            return self.now_s() - max(record.seen_s for record in self._records.values())

    def statuses(self) -> tuple[ActorStatus, ...]:
        """Return the status of every actor that has recorded, sorted by name."""
        with self._mutex:
            now_s = self.now_s()
            return tuple(self._records[name].status(now_s) for name in sorted(self._records))
