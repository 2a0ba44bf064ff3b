"""One actor's recording stream on the learner: items in, acks out once they are on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.backend import LearnerBackend
from robot_stack.transport.codec import decode_header, decode_step
from robot_stack.types.errors import SpecError, TransportError

POLL_S = 0.05
DRAIN_S = 5.0
"""After the actor's last item: how long to wait for the disk. A backend flushes each second."""


class PushStream:
    """Reads on its own thread, so that acks flow while the actor is silent."""

    def __init__(
        self, backend: LearnerBackend, requests: Iterator[pb.PushRequest], changed: threading.Condition
    ) -> None:
        self._backend = backend
        self._requests = requests
        self._changed = changed
        self._headers: list[str] = []
        self._received: dict[str, int] = {}
        self._acked: dict[str, int] = {}

    def acks(self, context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        """Yield an ack whenever an episode got further on disk.

        Raises:
            StackError: What the backend or the codec said about an item; everything before it was taken.
        """
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="push-reader") as executor:
            reader = executor.submit(self._read)
            reader.add_done_callback(lambda _: self._notify())
            while context.is_active() and not reader.done():
                with self._changed:
                    self._changed.wait(POLL_S)
                yield from self._due()
            if not context.is_active():
                return
            deadline = time.monotonic() + DRAIN_S
            while self._waiting() and reader.exception() is None and time.monotonic() < deadline:
                yield from self._due()
                with self._changed:
                    self._changed.wait(POLL_S)
            yield from self._due()
            reader.result()

    def _read(self) -> None:
        try:
            for request in self._requests:
                self._take(request)
        except grpc.RpcError:
            return  # the actor is gone; it sends again what was not acked

    def _take(self, request: pb.PushRequest) -> None:
        backend = self._backend
        if request.run_id != backend.run_id:
            raise TransportError(
                f"run is {request.run_id!r} on the actor, must be {backend.run_id!r} as on the learner; "
                "restart the actor"
            )
        kind = request.WhichOneof("item")
        if kind == "header":
            header = decode_header(request.header)
            if header.task != backend.task:
                raise SpecError(f"task of {header.episode_id} is {header.task!r}, must be {backend.task!r}")
            backend.begin(header)
            with self._changed:
                self._headers.append(header.episode_id)
        elif kind == "step":
            step = decode_step(request.step, backend.spec)
            backend.append(step)
            with self._changed:
                self._received[step.episode_id] = step.index
        else:
            raise SpecError("item is missing, must be a header or a step; install the same robot-stack on both ends")

    def _due(self) -> Iterator[pb.Ack]:
        with self._changed:
            headers, self._headers = self._headers, []
            waiting = {name: self._received[name] for name in self._waiting()}
        for episode_id in headers:
            yield pb.Ack(episode_id=episode_id, index=-1)
        for episode_id, received in waiting.items():
            # Of a step sent again more may be on disk than this stream has brought; ack what it brought.
            index = min(self._backend.durable(episode_id), received)
            if index > self._acked.get(episode_id, -1):
                self._acked[episode_id] = index
                yield pb.Ack(episode_id=episode_id, index=index)

    def _waiting(self) -> list[str]:
        return [name for name, index in self._received.items() if index > self._acked.get(name, -1)]

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
