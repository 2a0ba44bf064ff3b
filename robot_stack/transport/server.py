"""The learner's gRPC server, which checks what comes in and explains what it refuses; no learning in here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.access.door import SESSION, Door
from robot_stack.transport.access.refusals import Refusal, Refusals, RefusedError
from robot_stack.transport.access.security import Credentials, Security, listening_address, server_credentials
from robot_stack.transport.access.sessions import Method, Role, Sessions
from robot_stack.transport.backend import LearnerBackend
from robot_stack.transport.bundle import encode_params
from robot_stack.transport.codec import decode_label, decode_mark, encode_score, encode_status
from robot_stack.transport.handshake import check_hello
from robot_stack.transport.push_stream import PushStream
from robot_stack.transport.service import add_learner
from robot_stack.transport.wire import PROTOCOL_VERSION, server_options
from robot_stack.types.errors import TransportError

WATCH_S = 0.5
"""How long a watch sleeps in the backend before it looks whether its actor is still there."""


class LearnerServer:
    """A gRPC server of a backend at `address` (host:port; port 0: a free one), for peers with its token."""

    def __init__(self, backend: LearnerBackend, address: str, security: Credentials) -> None:
        self._backend = backend
        self._wanted = address
        self._security = security
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server: grpc.Server | None = None
        self._door: Door | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """Return host:port with the port really in use."""
        return f"{self._wanted.rpartition(':')[0]}:{self._port}"

    def start(self) -> str:
        """Start listening; return `address`.

        Raises:
            TransportError: If the port is in use, or the address is beyond this machine and there is no TLS.
        """
        address = listening_address(self._wanted, self._security)
        spec = self._backend.spec
        sessions, refusals = Sessions(time.monotonic), Refusals()
        door = Door(self._security, sessions=sessions, refusals=refusals, step_bytes=bounds.step_bytes(spec))
        server = grpc.server(
            ThreadPoolExecutor(max_workers=bounds.MAX_CALLS, thread_name_prefix="learner-rpc"),
            interceptors=[door],
            options=server_options(bounds.request_bytes(spec)),
            maximum_concurrent_rpcs=bounds.MAX_CALLS,
        )
        servicer = _Servicer(self._backend, self._changed, self._stopping, sessions, refusals)
        add_learner(servicer, server)
        self._port = self._bind(server, address)
        server.start()
        door.open()
        self._server, self._door = server, door
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
        if self._door is not None:
            self._door.close()
            self._door = None

    def _bind(self, server: grpc.Server, address: str) -> int:
        try:
            if isinstance(self._security, Security):
                port = server.add_secure_port(address, server_credentials(self._security))
            else:
                port = server.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if port == 0:
            wanted = self._wanted.rpartition(":")[2]
            raise TransportError(
                f"port {wanted} of {self._wanted} is in use or not ours, must be free; "
                "stop the learner that has it, choose another port, or 0 for any"
            )
        return port


class _Servicer:
    """The calls of the service, which arrive once the door has let them in; the door puts our errors into words."""

    def __init__(
        self,
        backend: LearnerBackend,
        changed: threading.Condition,
        stopping: threading.Event,
        sessions: Sessions,
        refusals: Refusals,
    ) -> None:
        self._backend = backend
        self._changed = changed
        self._stopping = stopping
        self._sessions = sessions
        self._refusals = refusals

    def Hello(self, request: pb.HelloRequest, context: grpc.ServicerContext) -> pb.HelloReply:
        backend, accepted, next_number = self._backend, 0, 0
        role = check_hello(request, spec=backend.spec, task=backend.task, run_id=backend.run_id)
        if role is Role.ACTOR:
            backend.roster.check(request.actor_id, request.life)
            accepted, next_number = backend.hello(), backend.next_number(request.actor_id)
        session = self._sessions.open(role, request.actor_id, request.life)
        return pb.HelloReply(
            protocol=PROTOCOL_VERSION,
            run_id=backend.run_id,
            accepted_steps=accepted,
            session=session.key,
            next_number=next_number,
        )

    def PushSteps(self, requests: Iterator[pb.PushRequest], context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        key = dict(context.invocation_metadata()).get(SESSION, "")
        session = self._sessions.find(key, Method.PUSH_STEPS)
        with self._backend.roster.stream(session.name, session.life, context.peer()) as actor:
            yield from PushStream(self._backend, requests, self._changed, actor, self._refusals).acks(context)

    def WatchParams(self, request: pb.WatchParamsRequest, context: grpc.ServicerContext) -> Iterator[pb.Params]:
        version = request.version
        while self._open(context):
            params = self._backend.params_after(version, WATCH_S)
            if params is not None:
                version = params.version
                yield encode_params(params, created_unix_s=time.time())

    def WatchScores(self, request: pb.WatchScoresRequest, context: grpc.ServicerContext) -> Iterator[pb.LiveScore]:
        cursor = 0
        while self._open(context):
            cursor, scores = self._backend.scores_after(cursor, WATCH_S)
            yield from map(encode_score, scores)

    def Label(self, request: pb.Label, context: grpc.ServicerContext) -> pb.LabelReply:
        label = decode_label(request)
        if not self._backend.wait_room(WATCH_S):
            raise RefusedError(
                Refusal.FULL,
                f"room of the learner for a label of {label.episode_id} is none, must be some; send it later",
            )
        key = dict(context.invocation_metadata()).get(SESSION, "")
        by_actor = self._sessions.find(key, Method.LABEL).role is Role.ACTOR
        self._backend.label(label, by_actor=by_actor)
        return pb.LabelReply()

    def Mark(self, request: pb.StageMark, context: grpc.ServicerContext) -> pb.MarkReply:
        self._backend.mark(decode_mark(request))
        return pb.MarkReply()

    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusReply:
        status = self._backend.status()
        refused = {f"refused_{kind.value}": float(count) for kind, count in self._refusals.counts.items()}
        return encode_status(replace(status, counters={**status.counters, **refused}))

    def _open(self, context: grpc.ServicerContext) -> bool:
        return bool(context.is_active()) and not self._stopping.is_set()
