"""Sessions of the peers that have said Hello, one each, so that no peer takes another's number of calls."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from robot_stack.transport.access import bounds
from robot_stack.transport.access.refusals import Refusal, RefusedError


class Role(StrEnum):
    """The role of a peer: an actor records; an operator looks and labels."""

    ACTOR = "actor"
    OPERATOR = "operator"


class Method(StrEnum):
    """The calls of the service, by their names in learner.proto."""

    HELLO = "Hello"
    PUSH_STEPS = "PushSteps"
    WATCH_PARAMS = "WatchParams"
    WATCH_SCORES = "WatchScores"
    LABEL = "Label"
    MARK = "Mark"
    STATUS = "Status"


ALLOWED = {
    Role.ACTOR: frozenset(Method) - {Method.HELLO},
    Role.OPERATOR: frozenset({Method.WATCH_SCORES, Method.LABEL, Method.MARK, Method.STATUS}),
}
"""Role -> what it may call after its Hello."""
PLACES = {Role.ACTOR: bounds.MAX_ACTORS, Role.OPERATOR: bounds.MAX_OPERATORS}
CALLS = {Role.ACTOR: bounds.CALLS_OF_ACTOR, Role.OPERATOR: bounds.CALLS_OF_OPERATOR}


class Call(Protocol):
    """An open call, as the sessions need it; grpc.ServicerContext is one."""

    def cancel(self) -> object:
        """End the call from the server's side."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """The session of one peer; not frozen, because its calls come and go.

    Attributes:
        key: What the peer shows with each call.
        seen_s: When its newest call began or ended.
    """

    key: str
    role: Role
    name: str
    life: str
    seen_s: float
    calls: dict[Call, Method] = field(default_factory=dict)


class Sessions:
    """The sessions of all peers of this life of the learner, safe for many threads."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._found: dict[str, Session] = {}
        self._mutex = threading.Lock()

    def open(self, role: Role, name: str, life: str) -> Session:
        """Open a session for a peer that has said Hello; an earlier one of the same peer ends, with its calls.

        Raises:
            RefusedError: If all places of its role are taken by peers that are there.
        """
        fresh = Session(key=secrets.token_hex(16), role=role, name=name, life=life, seen_s=self._now_s())
        with self._mutex:
            self._forget_idle()
            over = [s for s in self._found.values() if (s.role, s.name, s.life) == (role, name, life)]
            alike = [s for s in self._found.values() if s.role is role and s not in over]
            if len(alike) >= PLACES[role]:
                silent = [session for session in alike if not session.calls]
                if not silent:
                    raise RefusedError(
                        Refusal.FULL,
                        f"number of {role.value}s is {len(alike)} beside {name!r}, must be below {PLACES[role]}; stop "
                        "one of them",
                    )
                over.append(min(silent, key=lambda session: session.seen_s))
            ended = [call for session in over for call in session.calls]
            for session in over:
                del self._found[session.key]
            self._found[fresh.key] = fresh
        for call in ended:
            call.cancel()
        return fresh

    def find(self, key: str, method: Method) -> Session:
        """Return the session of a call, once it is known that its role may make that call.

        Raises:
            RefusedError: If there is none, or its role may not call this.
        """
        with self._mutex:
            session = self._found.get(key)
            if session is None and not key:
                raise RefusedError(
                    Refusal.HELLO_MISSING,
                    f"session of {method.value} is missing, must be that of a Hello; say Hello first",
                )
            if session is None:
                raise RefusedError(
                    Refusal.SESSION_OVER,
                    f"session of {method.value} is over, must be one that this learner knows; say Hello again",
                )
            if method not in ALLOWED[session.role]:
                raise RefusedError(
                    Refusal.ROLE,
                    f"role of {session.name!r} is {session.role.value}, must be {Role.ACTOR.value} for {method.value}; "
                    "say Hello as one",
                )
            session.seen_s = self._now_s()
            return session

    @contextmanager
    def call(self, session: Session, method: Method, call: Call) -> Iterator[None]:
        """Count a call of a peer while it is open.

        Raises:
            RefusedError: If the peer has as many as it may have, of this kind or altogether.
        """
        with self._mutex:
            if session.key not in self._found:  # another Hello of this peer came between
                raise RefusedError(
                    Refusal.SESSION_OVER, f"session of {session.name!r} is over, must be its newest; say Hello again"
                )
            same = Counter(session.calls.values())[method]
            for found, most, what in (
                (same, bounds.STREAMS_EACH, f"{method.value} calls"),
                (len(session.calls), CALLS[session.role], "calls"),
            ):
                if found >= most:
                    raise RefusedError(
                        Refusal.TOO_MANY_CALLS,
                        f"number of open {what} of {session.name!r} is {found}, must be below {most} for another; end "
                        "one of them",
                    )
            session.calls[call] = method
        try:
            yield
        finally:
            with self._mutex:
                del session.calls[call]
                session.seen_s = self._now_s()

    def _forget_idle(self) -> None:
        before_s = self._now_s() - bounds.SESSION_IDLE_S
        for session in [s for s in self._found.values() if not s.calls and s.seen_s < before_s]:
            del self._found[session.key]
