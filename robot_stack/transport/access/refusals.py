"""Refusals by the learner: a kind for programs, a sentence for people, a count of each kind, and a bounded log."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

import grpc

from robot_stack.transport.wire import MAX_DETAIL_CHARS
from robot_stack.types.errors import SpecError, StackError, StoreError, TransportError

KIND = "refusal"
"""Trailing metadata that carries the kind of a refusal."""
LOG_EVERY_S = 1.0
"""A flood of refused calls must not become a flood of lines."""

log = logging.getLogger(__name__)


class Refusal(StrEnum):
    """The kind of a refusal, which says what is wrong with a call or an item."""

    TOKEN_MISSING = "token_missing"
    TOKEN_WRONG = "token_wrong"
    HELLO_MISSING = "hello_missing"
    SESSION_OVER = "session_over"
    ROLE = "role"
    TAKEN = "taken"
    MISMATCH = "mismatch"
    MALFORMED = "malformed"
    CUT = "cut"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    TOO_MANY_CALLS = "too_many_calls"
    FULL = "full"
    DISK = "disk"


CODES = {
    Refusal.TOKEN_MISSING: grpc.StatusCode.UNAUTHENTICATED,
    Refusal.TOKEN_WRONG: grpc.StatusCode.UNAUTHENTICATED,
    Refusal.HELLO_MISSING: grpc.StatusCode.FAILED_PRECONDITION,
    Refusal.SESSION_OVER: grpc.StatusCode.ABORTED,
    Refusal.ROLE: grpc.StatusCode.PERMISSION_DENIED,
    Refusal.TAKEN: grpc.StatusCode.ALREADY_EXISTS,
    Refusal.MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    Refusal.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.CUT: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.TOO_SLOW: grpc.StatusCode.CANCELLED,
    Refusal.TOO_MANY_CALLS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Refusal.FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Refusal.DISK: grpc.StatusCode.UNAVAILABLE,
}
"""Kind -> status of the call."""


class RefusedError(TransportError):
    """An error by which the learner refuses a call or an item, with the kind of the refusal."""

    def __init__(self, kind: Refusal, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class ActorTakenError(RefusedError):
    """A refusal because another process of that name is connected.

    Worth another try: its connection may be dead and not yet noticed.
    """

    def __init__(self, words: str) -> None:
        super().__init__(Refusal.TAKEN, words)


def kind_of(error: StackError) -> Refusal:
    """Return the kind of refusal that an error of the learner becomes."""
    if isinstance(error, RefusedError):
        return error.kind
    if isinstance(error, SpecError):
        return Refusal.MALFORMED
    return Refusal.DISK if isinstance(error, StoreError) else Refusal.MISMATCH


def refusal_of(error: grpc.RpcError) -> Refusal | None:
    """Return the kind of refusal that came with a failed call, or None if no learner of ours has refused it."""
    said = dict(error.trailing_metadata() or ()).get(KIND)
    return Refusal(said) if said in tuple(Refusal) else None


class Refusals:
    """A thread-safe count of what is refused, which logs at most one refusal a second."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._counts: Counter[Refusal] = Counter()
        self._silent = 0
        self._spoke_s = float("-inf")
        self._mutex = threading.Lock()

    @property
    def counts(self) -> Mapping[Refusal, int]:
        """Return how often each kind was refused since the learner started."""
        with self._mutex:
            return dict(self._counts)

    def note(self, kind: Refusal, peer: str, words: str) -> None:
        """Count one refusal, and log it unless another one was logged within the last second."""
        with self._mutex:
            self._counts[kind] += 1
            if self._now_s() - self._spoke_s < LOG_EVERY_S:
                self._silent += 1
                return
            more = f" ({self._silent} more since the last line)" if self._silent else ""
            self._silent, self._spoke_s = 0, self._now_s()
        log.warning("refused %s as %s: %s%s", peer, kind.value, words[:MAX_DETAIL_CHARS], more)

    @contextmanager
    def in_words(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Turn our errors into a gRPC status with their kind and message; any other is a bug, and gRPC logs it."""
        try:
            yield
        except (SpecError, StoreError, TransportError) as error:
            self.abort(context, kind_of(error), str(error))

    def abort(self, context: grpc.ServicerContext, kind: Refusal, words: str) -> None:
        """Count a refusal and end the call with it; raises what gRPC wants raised."""
        self.note(kind, context.peer(), words)
        context.set_trailing_metadata(((KIND, kind.value),))
        context.abort(CODES[kind], words[:MAX_DETAIL_CHARS])
