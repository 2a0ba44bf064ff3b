"""The learner's door, which checks the token of every call, its session, and the number of calls a peer has open.

Every call but Hello needs a session. Strangers are refused before anything of theirs is read, so that they hold no
thread. Every handler is wrapped into one that reads its request itself: its length is bounded, and so is the time until
it comes.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.access.refusals import Refusal, Refusals, RefusedError
from robot_stack.transport.access.security import Security
from robot_stack.transport.access.sessions import Call, Method, Session, Sessions

SESSION = "session"
"""Metadata that carries the session."""
SWEEP_S = 0.25

REQUESTS: dict[Method, tuple[Callable[[bytes], Any], int]] = {
    Method.HELLO: (pb.HelloRequest.FromString, bounds.MAX_HELLO_BYTES),
    Method.PUSH_STEPS: (pb.PushRequest.FromString, 0),  # of the cell's spec
    Method.WATCH_PARAMS: (pb.WatchParamsRequest.FromString, bounds.MAX_QUESTION_BYTES),
    Method.WATCH_SCORES: (pb.WatchScoresRequest.FromString, bounds.MAX_QUESTION_BYTES),
    Method.LABEL: (pb.Label.FromString, bounds.MAX_LABEL_BYTES),
    Method.MARK: (pb.StageMark.FromString, bounds.MAX_MARK_BYTES),
    Method.STATUS: (pb.StatusRequest.FromString, bounds.MAX_QUESTION_BYTES),
}
"""Call -> how its message is read, and the most bytes of it."""


class Door(grpc.ServerInterceptor):
    """A gRPC interceptor that refuses calls without a valid token or session, and counts the open calls of the others.

    Args:
        token: What every call must bear, of certificates or of the run folder.
        step_bytes: The most that one message of a recording may be.
    """

    def __init__(self, token: Security | LinkToken, *, sessions: Sessions, refusals: Refusals, step_bytes: int) -> None:
        self._token = token
        self._expected = f"Bearer {token.token}".encode()
        self._sessions = sessions
        self._refusals = refusals
        self._step_bytes = step_bytes
        self._waiting: dict[Call, tuple[float, Method]] = {}
        self._mutex = threading.Lock()
        self._shut = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="door", daemon=True)

    def open(self) -> None:
        """Start the thread that ends calls whose request does not come."""
        self._sweeper.start()

    def close(self) -> None:
        """Stop the thread that ends slow calls."""
        self._shut.set()
        self._sweeper.join(2.0)

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler], details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """Return a handler that answers a call, or one that refuses it unread; None for a method there is not."""
        handler = continuation(details)
        if handler is None:
            return None
        method = Method(details.method.rpartition("/")[2])
        shown = dict(details.invocation_metadata)
        try:
            self._check_token(shown.get("authorization", ""))
            session = None if method is Method.HELLO else self._sessions.find(str(shown.get(SESSION, "")), method)
        except RefusedError as error:
            return self._handler(handler, self._refuse(error))
        return self._handler(handler, self._answer(handler, method, session))

    def _check_token(self, offered: str | bytes) -> None:
        raw = offered.encode() if isinstance(offered, str) else offered
        if hmac.compare_digest(raw, self._expected):
            return
        kind = Refusal.TOKEN_WRONG if raw else Refusal.TOKEN_MISSING
        if isinstance(self._token, LinkToken):
            have = "wrong" if raw else "missing"
            raise RefusedError(
                kind,
                f"token is {have}, must be that in {self._token.path}; start this process in the same run folder, or "
                "copy that file into its own, as the same account",
            )
        raise RefusedError(kind, "token is missing or wrong, must be the learner's; copy its token file")

    @staticmethod
    def _handler(handler: grpc.RpcMethodHandler, behaviour: Callable[..., Any]) -> grpc.RpcMethodHandler:
        """Wrap a behaviour as a handler that streams both ways, whatever the call is.

        On the wire that is the same, and nothing is read by itself.
        """
        return grpc.stream_stream_rpc_method_handler(behaviour, None, handler.response_serializer)

    def _refuse(self, error: RefusedError) -> Callable[..., Any]:
        def refuse(requests: Iterator[bytes], context: grpc.ServicerContext) -> None:
            self._refusals.abort(context, error.kind, str(error))

        return refuse

    def _answer(self, handler: grpc.RpcMethodHandler, method: Method, session: Session | None) -> Callable[..., Any]:
        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._refusals.in_words(context), self._counted(method, session, context):
                if handler.request_streaming:
                    yield from handler.stream_stream(self._read_all(requests, method), context)
                    return
                with self._soon(method, context):
                    raw = next(requests, None)
                if raw is None:
                    raise RefusedError(
                        Refusal.MALFORMED, f"request of {method.value} is missing, must be one message; send it"
                    )
                request = self._read(raw, method)
                if handler.response_streaming:
                    yield from handler.unary_stream(request, context)
                else:
                    yield handler.unary_unary(request, context)

        return answer

    def _read_all(self, requests: Iterator[bytes], method: Method) -> Iterator[Any]:
        for raw in requests:
            yield self._read(raw, method)

    def _read(self, raw: bytes, method: Method) -> Any:
        parse, most = REQUESTS[method]
        most = most or self._step_bytes
        if len(raw) > most:
            raise RefusedError(
                Refusal.TOO_LARGE, f"message of {method.value} is {len(raw)} bytes, must be at most {most}; send less"
            )
        try:
            return parse(raw)
        except DecodeError as error:
            raise RefusedError(
                Refusal.MALFORMED,
                f"message of {method.value} is unreadable ({error}), must be protobuf of learner.proto; install the "
                "same robot-stack on both ends",
            ) from error

    @contextmanager
    def _counted(self, method: Method, session: Session | None, context: grpc.ServicerContext) -> Iterator[None]:
        if session is None:
            yield
            return
        with self._sessions.call(session, method, context):
            yield

    @contextmanager
    def _soon(self, method: Method, call: Call) -> Iterator[None]:
        """End the call unless the block finishes within `bounds.FIRST_MESSAGE_S`, or if too many slow Hellos wait."""
        with self._mutex:
            self._waiting[call] = (time.monotonic(), method)
            hellos = [each for each, (_, kind) in self._waiting.items() if kind is Method.HELLO]
            late = hellos[: max(0, len(hellos) - bounds.MAX_HELLOS)]
        self._end(late)
        try:
            yield
        finally:
            with self._mutex:
                self._waiting.pop(call, None)

    def _sweep(self) -> None:
        while not self._shut.wait(SWEEP_S):
            before_s = time.monotonic() - bounds.FIRST_MESSAGE_S
            with self._mutex:
                late = [call for call, (began_s, _) in self._waiting.items() if began_s < before_s]
            self._end(late)

    def _end(self, late: list[Call]) -> None:
        for call in late:
            with self._mutex:
                if self._waiting.pop(call, None) is None:
                    continue
            self._refusals.note(
                Refusal.TOO_SLOW,
                str(getattr(call, "peer", str)()),
                f"request has not come, must come with its call, within {bounds.FIRST_MESSAGE_S:g} s or before "
                f"{bounds.MAX_HELLOS} others wait; the call is ended",
            )
            call.cancel()
