"""The checks of a Hello: any peer must speak this protocol, an actor must also have the spec, task and run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.access.sessions import Role
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.names import check_name
from robot_stack.types.spec import Spec

MAX_DIFFERENCES = 20
"""Lines about a spec; an operator mends the first ones."""


def check_hello(request: pb.HelloRequest, *, spec: Spec, task: str, run_id: str) -> Role:
    """Return the role of a peer that said Hello, once it is known that it may talk.

    Raises:
        SpecError: If a field is missing, too long or no name.
        TransportError: With a line for each thing on which the two ends differ.
    """
    if request.protocol != PROTOCOL_VERSION:
        raise TransportError(
            f"protocol is {request.protocol} on the actor, must be {PROTOCOL_VERSION} as on the learner; "
            "install the same robot-stack on both machines"
        )
    role = _check_fields(request)
    if role is Role.OPERATOR:
        return role
    wrong = []
    if request.spec_digest != spec.digest:
        wrong += list(spec_differences(request.spec_json, spec)) or [
            f"spec digest is {request.spec_digest!r} on the actor, must be {spec.digest!r} as on the learner"
        ]
    if request.task != task:
        wrong.append(f"task is {request.task!r} on the actor, must be {task!r} as on the learner")
    remedy = "start both with the same cell, task and run"
    if request.run_id and request.run_id != run_id:
        wrong.append(f"run is {request.run_id!r} on the actor, must be {run_id!r} as on the learner")
        remedy += "; where that began anew, restart the actor, or move its spool away if steps of before are in it"
    if wrong:
        raise TransportError("\n".join([*wrong, remedy]))
    return role


def _check_fields(request: pb.HelloRequest) -> Role:
    """Return the role that a Hello names, once each of its fields is known to be short."""
    if not request.actor_id or not request.life:
        raise SpecError(
            f"actor is {request.actor_id[: bounds.MAX_NAME_CHARS]!r}, life {request.life[: bounds.MAX_LIFE_CHARS]!r}, "
            "must both be given; install the same robot-stack"
        )
    check_name(request.actor_id[: bounds.MAX_NAME_CHARS + 1], "actor")
    for name, value, most in (
        ("life", request.life, bounds.MAX_LIFE_CHARS),
        ("spec_digest", request.spec_digest, bounds.MAX_NAME_CHARS),
        ("spec_json", request.spec_json, bounds.MAX_SPEC_CHARS),
        ("task", request.task, bounds.MAX_NAME_CHARS),
        ("run_id", request.run_id, bounds.MAX_NAME_CHARS),
    ):
        check_length(value, name, most)
    if request.role not in tuple(Role):
        raise SpecError(f"role is {request.role[:40]!r}, must be one of {[role.value for role in Role]}; name one")
    return Role(request.role)


def check_length(value: str, what: str, most: int) -> None:
    """Raise SpecError if a text is longer than its field may be."""
    if len(value) > most:
        raise SpecError(f"length of {what} is {len(value)} characters, must be at most {most}; shorten it")


def spec_differences(actor_json: str, spec: Spec) -> Iterator[str]:
    """Yield one line for each field on which the actor's spec differs, at most `MAX_DIFFERENCES`."""
    try:
        theirs = json.loads(actor_json)
        found = list(itertools.islice(_differences("spec", theirs, json.loads(spec.to_json())), MAX_DIFFERENCES))
    except (ValueError, RecursionError):
        yield f"spec is {actor_json[:40]!r} on the actor, must be JSON"
        return
    yield from found


def _differences(path: str, actor: Any, learner: Any) -> Iterator[str]:
    if isinstance(actor, dict) and isinstance(learner, dict):
        for key in sorted(actor.keys() | learner.keys()):
            yield from _differences(f"{path}.{key}", actor.get(key), learner.get(key))
    elif isinstance(actor, list) and isinstance(learner, list) and len(actor) == len(learner):
        for i, (mine, theirs) in enumerate(zip(actor, learner)):
            yield from _differences(f"{path}[{i}]", mine, theirs)
    elif actor != learner:
        yield f"{path} is {_short(actor)} on the actor, must be {_short(learner)} as on the learner"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."
