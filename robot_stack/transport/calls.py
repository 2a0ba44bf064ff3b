"""Single calls to a learner, for the console and the command line: no spool, no thread, always bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.codec import decode_status, encode_label
from robot_stack.transport.learner_pb2_grpc import LearnerStub
from robot_stack.transport.security import Security, open_channel
from robot_stack.types.errors import TransportError
from robot_stack.types.event import Label

_DISTRUST = {
    "certificate has expired": "has a certificate that has expired",
    "Hostname Verification Check failed": "has a certificate for another host",
    "CERTIFICATE_VERIFY_FAILED": "has a certificate of another authority",
    "WRONG_VERSION_NUMBER": "uses no TLS",
    "Socket closed": "closed the connection before a word: it wants a certificate, or does not take this one",
    "Connection reset": "closed the connection before a word: it wants a certificate, or does not take this one",
}
"""What TLS says -> what that means. Of a refused certificate the refused end only sees the closed connection."""


def learner_status(address: str, *, security: Security | None = None, timeout_s: float = 2.0) -> LearnerStatus:
    """What the learner at `address` is doing.

    Raises:
        TransportError: If it does not answer within `timeout_s`, or refuses.
    """
    return decode_status(_call(address, security, lambda stub: stub.Status(pb.StatusRequest(), timeout=timeout_s)))


def send_label(address: str, label: Label, *, security: Security | None = None, timeout_s: float = 5.0) -> None:
    """Hand a verdict over; it is on the learner's disk when this returns.

    Raises:
        TransportError: If the learner does not answer within `timeout_s`, or refuses.
    """
    message = encode_label(label)
    _call(address, security, lambda stub: stub.Label(message, timeout=timeout_s))


def error_words(error: grpc.RpcError, address: str) -> str:
    """What a person should read about a failed call."""
    code, details = error.code(), str(error.details())
    distrust = next((words for sign, words in _DISTRUST.items() if sign in details), None)
    if code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details and distrust is not None:
        return (
            f"learner at {address} {distrust}, must share a set of certificates that is in date and names that host; "
            "copy its actor/ here, or make a new set with `robot-stack certs`"
        )
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return f"learner at {address} is {code.name} ({details}), must answer; is it running there?"
    return details


def _call(address: str, security: Security | None, ask: Callable[[LearnerStub], Any]) -> Any:
    with open_channel(address, security) as channel:
        try:
            return ask(LearnerStub(channel))
        except grpc.RpcError as error:
            raise TransportError(error_words(error, address)) from error
