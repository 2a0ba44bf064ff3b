"""One actor's recording stream on the learner: items in, acks out once they are on disk.

An item that is wrong is refused in an ack, counted, and the stream goes on: what could follow it in its episode
is refused too, since the episode is closed at the newest good frame.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.access.refusals import Refusal, Refusals, RefusedError
from robot_stack.transport.backend import LearnerBackend
from robot_stack.transport.codec import decode_header, decode_step
from robot_stack.transport.roster import ActorRecord
from robot_stack.transport.wire import MAX_DETAIL_CHARS
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.transition import EpisodeHeader, Step

LONGEST = 2 * bounds.MAX_NAME_CHARS
"""Of a refused episode's id that is said back: an ack must name its item as it came."""
POLL_S = 0.05
DRAIN_S = 5.0
"""After the actor's last item: how long to wait for the disk. A backend flushes each second."""


class PushStream:
    """The learner's end of a recording stream.

    It reads on its own thread, so that acks flow while the actor is silent.

    Args:
        requests: What the actor sends; not read while the learner has no room, which holds the actor's sender.
    """

    def __init__(
        self,
        backend: LearnerBackend,
        requests: Iterator[pb.PushRequest],
        changed: threading.Condition,
        actor: ActorRecord,
        refusals: Refusals,
    ) -> None:
        self._backend = backend
        self._requests = requests
        self._changed = changed
        self._actor = actor
        self._refusals = refusals
        self._now_s = backend.roster.now_s
        self._ready: list[pb.Ack] = []
        self._waiting: dict[str, deque[tuple[int, float]]] = {}
        self._ended = False
        self._shut: set[str] = set()
        """Episodes whose header was refused: their steps must not end up in one of the same name."""

    def acks(self, context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        """Yield an ack whenever an episode got further on disk.

        Raises:
            StackError: What ended the stream; everything before it was taken.
        """
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="push-reader") as executor:
            reader = executor.submit(self._read, context)
            reader.add_done_callback(lambda _: self._notify())
            while context.is_active() and not reader.done():
                with self._changed:
                    self._changed.wait(POLL_S)
                yield from self._due()
            if not context.is_active():
                return
            deadline_s = time.monotonic() + DRAIN_S
            while self._waiting and reader.exception() is None and time.monotonic() < deadline_s:
                yield from self._due()
                with self._changed:
                    self._changed.wait(POLL_S)
            yield from self._due()
            reader.result()
            self._actor.left = self._ended and context.is_active()

    def _read(self, context: grpc.ServicerContext) -> None:
        try:
            for request in self._requests:
                self._actor.seen_s = self._now_s()
                self._actor.bytes += request.ByteSize()
                self._take(request)
                if not self._backend.wait_room(0.0):
                    self._actor.held += 1
                    while context.is_active() and not self._backend.wait_room(POLL_S):
                        pass
            self._ended = True
        except grpc.RpcError:
            return  # the actor is gone; it sends again what was not acked

    def _take(self, request: pb.PushRequest) -> None:
        if request.run_id != self._backend.run_id:
            raise TransportError(
                f"run is {request.run_id!r} on the actor, must be {self._backend.run_id!r} as on the learner; "
                "restart the actor"
            )
        kind = request.WhichOneof("item")
        if kind == "header":
            episode_id, index = request.header.episode_id, -1
        elif kind == "step":
            episode_id, index = request.step.episode_id, request.step.index
        else:
            raise SpecError("item is missing, must be a header or a step; install the same robot-stack on both ends")
        if index > bounds.MAX_INDEX:  # more than the number of an ack may be; no actor of ours sends it
            raise SpecError(f"index of a step is {index}, must be 0 to {bounds.MAX_INDEX}; begin another episode")
        try:
            if kind == "header":
                self._begin(decode_header(request.header))
            else:
                self._append(decode_step(request.step, self._backend.spec))
        except SpecError as error:
            self._refuse(episode_id, index, str(error))

    def _begin(self, header: EpisodeHeader) -> None:
        self._shut.discard(header.episode_id)
        if header.task != self._backend.task:
            raise SpecError(f"task of {header.episode_id} is {header.task!r}, must be {self._backend.task!r}")
        if header.actor != self._actor.actor_id:
            raise SpecError(
                f"actor of {header.episode_id} is {header.actor!r}, must be {self._actor.actor_id!r}, as whom this one "
                "is connected; start it with the id of its own recordings"
            )
        fresh = self._backend.begin(header)
        self._actor.episodes += fresh
        self._actor.resends += not fresh
        with self._changed:
            self._ready.append(pb.Ack(episode_id=header.episode_id, index=-1))

    def _append(self, step: Step) -> None:
        if step.episode_id in self._shut:
            raise SpecError(f"header of {step.episode_id} is refused, must be taken before its steps")
        owner = self._backend.owner(step.episode_id)
        if owner not in (None, self._actor.actor_id):
            raise SpecError(
                f"episode of step {step.episode_id}/{step.index} is of actor {owner!r}, must be one of "
                f"{self._actor.actor_id!r}, as whom this one is connected; begin one of its own"
            )
        fresh = self._backend.append(step)
        self._actor.steps += fresh
        self._actor.resends += not fresh
        if step.action is not None:
            self._actor.params_version = step.action.params_version
        with self._changed:
            self._waiting.setdefault(step.episode_id, deque()).append((step.index, self._now_s()))

    def _refuse(self, episode_id: str, index: int, reason: str) -> None:
        """Tell the actor, which does not send the item again, and close the episode of a step, if it is its own."""
        self._actor.refused += 1
        self._refusals.note(Refusal.MALFORMED, self._actor.actor_id, f"{episode_id[:LONGEST]}/{index}: {reason}")
        if len(episode_id) > LONGEST:
            raise SpecError(f"length of an episode id is {len(episode_id)}, must be at most {LONGEST}; shorten it")
        if index >= 0:
            if episode_id not in self._shut and self._backend.owner(episode_id) == self._actor.actor_id:
                self._backend.cut(episode_id)
        elif len(self._shut) < bounds.MAX_REFUSED_EPISODES:
            self._shut.add(episode_id)
        else:
            raise RefusedError(
                Refusal.FULL,
                f"number of refused episodes of {self._actor.actor_id!r} is {len(self._shut)} on one stream, must be "
                f"below {bounds.MAX_REFUSED_EPISODES}; mend what is wrong with them, then connect again",
            )
        with self._changed:
            self._ready.append(pb.Ack(episode_id=episode_id, index=index, refusal=reason[:MAX_DETAIL_CHARS]))

    def _due(self) -> Iterator[pb.Ack]:
        with self._changed:
            acks, self._ready = self._ready, []
            names = list(self._waiting)
        for episode_id in names:
            durable = self._backend.durable(episode_id)
            with self._changed:
                ack = self._landed(episode_id, durable)
            if ack is not None:
                acks.append(ack)
        yield from acks

    def _landed(self, episode_id: str, durable: int) -> pb.Ack | None:
        """Ack the newest of the steps this stream brought that is on disk; of one sent again more may be there."""
        waiting, landed = self._waiting[episode_id], []
        while waiting and waiting[0][0] <= durable:
            index, received_s = waiting.popleft()
            self._actor.acks_s.append(self._now_s() - received_s)
            landed.append(index)
        if not waiting:
            del self._waiting[episode_id]
        return pb.Ack(episode_id=episode_id, index=max(landed)) if landed else None

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
