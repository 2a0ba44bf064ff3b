"""A watch on live scores for peers that only look: a stream in its own thread, opened again whenever it breaks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.security import Credentials, open_channel
from robot_stack.transport.calls import greet, operator_hello
from robot_stack.transport.codec import decode_score
from robot_stack.types.errors import SpecError
from robot_stack.types.reward import LiveScore

AGAIN_S = 1.0
HELLO_S = 5.0


class ScoreWatch:
    """A watch that hands every live score to `take`, in its own thread."""

    def __init__(
        self, address: str, take: Callable[[LiveScore], None], name: str, security: Credentials | None = None
    ) -> None:
        self._address = address
        self._take = take
        self._name = name
        self._life = uuid.uuid4().hex
        self._security = security
        self._over = threading.Event()
        self._channel: grpc.Channel | None = None
        self._thread = threading.Thread(target=self._watch, name="scores", daemon=True)

    def start(self) -> None:
        """Start watching, also while there is no learner yet."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; no score is handed over any more."""
        self._over.set()
        if self._channel is not None:
            self._channel.close()
        self._thread.join(2.0)

    def _watch(self) -> None:
        while not self._over.is_set():
            self._channel = open_channel(self._address, self._security)
            try:
                stub, _ = greet(self._channel, operator_hello(self._name, self._life), HELLO_S)
                for message in stub.WatchScores(pb.WatchScoresRequest()):
                    if self._over.is_set():
                        return
                    self._take(decode_score(message))
            except (grpc.RpcError, SpecError, ValueError):  # it is away, or closed from here
                pass
            finally:
                self._channel.close()
            self._over.wait(AGAIN_S)
