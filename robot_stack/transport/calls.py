"""Single calls to a learner, for the console and the command line: no spool, no thread, always bounded in time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.door import SESSION
from robot_stack.transport.access.refusals import Refusal, refusal_of
from robot_stack.transport.access.security import Credentials, open_channel, with_metadata
from robot_stack.transport.access.sessions import Role
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.codec import decode_status, encode_label, encode_mark
from robot_stack.transport.service import LearnerStub
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import TransportError
from robot_stack.types.event import Label
from robot_stack.types.stages import StageMark

_DISTRUST = {
    "certificate has expired": "has a certificate that has expired",
    "Hostname Verification Check failed": "has a certificate for another host",
    "CERTIFICATE_VERIFY_FAILED": "has a certificate of another authority",
    "WRONG_VERSION_NUMBER": "uses no TLS",
    "Socket closed": "closed the connection before a word: it wants a certificate, or does not take this one",
    "Connection reset": "closed the connection before a word: it wants a certificate, or does not take this one",
}
"""What TLS says -> what that means. Of a refused certificate the refused end only sees the closed connection."""
_UNRESOLVED = ("errors resolving", "DNS resolution failed")
"""What gRPC says of a name for which no address is found."""


OPERATOR = "operator"
"""Name of who only looks and labels, where it has none of its own."""


OF_THE_ITEM = frozenset({Refusal.MALFORMED, Refusal.TOO_LARGE, Refusal.CUT})
"""Refusals of what was sent itself. All others say that it came at a bad moment, or from a peer that is not let in."""


class ItemRefusedError(TransportError):
    """An error because the learner will never take what was sent; after any other it is worth another try."""


def learner_status(
    address: str, *, security: Credentials | None = None, timeout_s: float = 2.0, name: str = OPERATOR
) -> LearnerStatus:
    """Ask the learner at `address` for its status.

    Raises:
        TransportError: If it does not answer within `timeout_s`, or refuses.
    """
    return decode_status(
        _call(address, security, name, timeout_s, lambda stub: stub.Status(pb.StatusRequest(), timeout=timeout_s))
    )


def send_label(
    address: str, label: Label, *, security: Credentials | None = None, timeout_s: float = 5.0, name: str = OPERATOR
) -> None:
    """Send a verdict to the learner at `address`; it is on the learner's disk when this returns.

    Raises:
        ItemRefusedError: If it will never take this verdict.
        TransportError: If it does not answer within `timeout_s`, or does not take it now.
    """
    message = encode_label(label)
    _call(address, security, name, timeout_s, lambda stub: stub.Label(message, timeout=timeout_s))


def send_mark(
    address: str, mark: StageMark, *, security: Credentials | None = None, timeout_s: float = 5.0, name: str = OPERATOR
) -> None:
    """Send a stage mark to the learner at `address`; it is on the learner's disk when this returns.

    Raises:
        ItemRefusedError: If it will never take this stage mark.
        TransportError: If it does not answer within `timeout_s`, or does not take it now.
    """
    message = encode_mark(mark)
    _call(address, security, name, timeout_s, lambda stub: stub.Mark(message, timeout=timeout_s))


def greet(channel: grpc.Channel, request: pb.HelloRequest, timeout_s: float) -> tuple[LearnerStub, pb.HelloReply]:
    """Say Hello; return a stub whose calls bear the session, and the reply.

    Raises:
        grpc.RpcError: If the learner is away or refuses.
    """
    reply = LearnerStub(channel).Hello(request, timeout=timeout_s)
    return LearnerStub(with_metadata(channel, SESSION, reply.session)), reply


def operator_hello(name: str, life: str) -> pb.HelloRequest:
    """Make the Hello of a peer that looks and labels; `life` is random and new for each connection."""
    return pb.HelloRequest(protocol=PROTOCOL_VERSION, role=Role.OPERATOR.value, actor_id=name, life=life)


def error_words(error: grpc.RpcError, address: str) -> str:
    """Explain a failed call to an operator, in one sentence."""
    code, details = error.code(), str(error.details())
    distrust = next((words for sign, words in _DISTRUST.items() if sign in details), None)
    if code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details and distrust is not None:
        return (
            f"learner at {address} {distrust}, must share a set of certificates that is in date and names that host; "
            "copy its actor/ here, or make a new set with `robot-stack certs`"
        )
    if code is grpc.StatusCode.UNAVAILABLE and any(sign in details for sign in _UNRESOLVED):
        return (
            f"learner's host {address.rpartition(':')[0]} is unknown here ({details}), must be a name that this "
            "machine resolves; correct learner_address in the cell, or add the name to /etc/hosts"
        )
    unanswered = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    if unanswered and refusal_of(error) is None:
        return f"learner at {address} is {code.name} ({details}), must answer; is it running there?"
    return details


def _call(
    address: str, security: Credentials | None, name: str, timeout_s: float, ask: Callable[[LearnerStub], Any]
) -> Any:
    with open_channel(address, security) as channel:
        try:
            stub, _ = greet(channel, operator_hello(name, uuid.uuid4().hex), timeout_s)
        except grpc.RpcError as error:
            raise TransportError(error_words(error, address)) from error
        try:
            return ask(stub)
        except grpc.RpcError as error:
            kind = ItemRefusedError if refusal_of(error) in OF_THE_ITEM else TransportError
            raise kind(error_words(error, address)) from error
