"""The learner's gRPC face: checks what comes in, words for what is refused, no learning in here."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.backend import LearnerBackend
from robot_stack.transport.bundle import encode_params
from robot_stack.transport.codec import decode_label, encode_score, encode_status
from robot_stack.transport.handshake import check_hello
from robot_stack.transport.learner_pb2_grpc import LearnerServicer, add_LearnerServicer_to_server
from robot_stack.transport.push_stream import PushStream
from robot_stack.transport.roster import ActorTakenError
from robot_stack.transport.security import Security, TokenGate, require_loopback, server_credentials
from robot_stack.transport.wire import MAX_DETAIL_CHARS, PROTOCOL_VERSION, SERVER_OPTIONS
from robot_stack.types.errors import SpecError, StoreError, TransportError

MAX_CALLS = 128
"""Calls at once: three streams an actor, two an open console page. More are refused, never queued."""

WATCH_S = 0.5
"""How long a watch sleeps in the backend before it looks whether its actor is still there."""

log = logging.getLogger(__name__)


class LearnerServer:
    """Serves a backend at `address` (host:port; port 0 takes a free one)."""

    def __init__(self, backend: LearnerBackend, address: str, security: Security | None = None) -> None:
        self._backend = backend
        self._wanted = address
        self._security = security
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server: grpc.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """host:port with the port really in use."""
        return f"{self._wanted.rpartition(':')[0]}:{self._port}"

    def start(self) -> str:
        """Listen; returns `address`.

        Raises:
            TransportError: If the port is in use, or the address is beyond this machine and there is no security.
        """
        gates = []
        if self._security is None:
            require_loopback(self._wanted)
        else:
            gates = [TokenGate(self._security.token)]
        server = grpc.server(
            ThreadPoolExecutor(max_workers=MAX_CALLS, thread_name_prefix="learner-rpc"),
            interceptors=gates,
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=MAX_CALLS,
        )
        add_LearnerServicer_to_server(_Servicer(self._backend, self._changed, self._stopping), server)
        self._port = self._bind(server)
        server.start()
        self._server = server
        return self.address

    def durable_advanced(self) -> None:
        """Tell the open streams that more is on disk now; optional, they look 20 times a second."""
        with self._changed:
            self._changed.notify_all()

    def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, give the open ones `grace_s`, then cut them. Safe to call twice."""
        self._stopping.set()
        self.durable_advanced()
        if self._server is not None:
            self._server.stop(grace_s).wait(grace_s + 5.0)
            self._server = None

    def _bind(self, server: grpc.Server) -> int:
        try:
            if self._security is None:
                port = server.add_insecure_port(self._wanted)
            else:
                port = server.add_secure_port(self._wanted, server_credentials(self._security))
        except RuntimeError:
            port = 0
        if port == 0:
            wanted = self._wanted.rpartition(":")[2]
            raise TransportError(
                f"port {wanted} of {self._wanted} is in use or not ours, must be free; "
                "stop the learner that has it, choose another port, or 0 for any"
            )
        return port


class _Servicer(LearnerServicer):
    def __init__(self, backend: LearnerBackend, changed: threading.Condition, stopping: threading.Event) -> None:
        self._backend = backend
        self._changed = changed
        self._stopping = stopping

    def Hello(self, request: pb.HelloRequest, context: grpc.ServicerContext) -> pb.HelloReply:
        backend = self._backend
        with _refused_in_words(context):
            check_hello(request, spec=backend.spec, task=backend.task, run_id=backend.run_id)
            backend.roster.check(request.actor_id, request.life)
            accepted = backend.hello()
        return pb.HelloReply(protocol=PROTOCOL_VERSION, run_id=backend.run_id, accepted_steps=accepted)

    def PushSteps(self, requests: Iterator[pb.PushRequest], context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        who = dict(context.invocation_metadata())
        roster = self._backend.roster
        with (
            _refused_in_words(context),
            roster.stream(who.get("actor", ""), who.get("life", ""), context.peer()) as actor,
        ):
            yield from PushStream(self._backend, requests, self._changed, actor).acks(context)

    def WatchParams(self, request: pb.WatchParamsRequest, context: grpc.ServicerContext) -> Iterator[pb.Params]:
        version = request.version
        with _refused_in_words(context):
            while self._open(context):
                params = self._backend.params_after(version, WATCH_S)
                if params is not None:
                    version = params.version
                    yield encode_params(params, created_unix_s=time.time())

    def WatchScores(self, request: pb.WatchScoresRequest, context: grpc.ServicerContext) -> Iterator[pb.LiveScore]:
        cursor = 0
        with _refused_in_words(context):
            while self._open(context):
                cursor, scores = self._backend.scores_after(cursor, WATCH_S)
                yield from map(encode_score, scores)

    def Label(self, request: pb.Label, context: grpc.ServicerContext) -> pb.LabelReply:
        with _refused_in_words(context):
            self._backend.label(decode_label(request))
        return pb.LabelReply()

    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusReply:
        with _refused_in_words(context):
            status = self._backend.status()
        return encode_status(status)

    def _open(self, context: grpc.ServicerContext) -> bool:
        return bool(context.is_active()) and not self._stopping.is_set()


@contextmanager
def _refused_in_words(context: grpc.ServicerContext) -> Iterator[None]:
    """Our errors become a gRPC status with their message; anything else is a bug and logged by gRPC."""
    try:
        yield
    except SpecError as error:
        _abort(context, grpc.StatusCode.INVALID_ARGUMENT, error)
    except ActorTakenError as error:
        _abort(context, grpc.StatusCode.ALREADY_EXISTS, error)
    except TransportError as error:
        _abort(context, grpc.StatusCode.FAILED_PRECONDITION, error)
    except StoreError as error:
        _abort(context, grpc.StatusCode.UNAVAILABLE, error)


def _abort(context: grpc.ServicerContext, code: grpc.StatusCode, error: Exception) -> None:
    log.warning("refused %s: %s", context.peer(), error)
    context.abort(code, str(error)[:MAX_DETAIL_CHARS])
