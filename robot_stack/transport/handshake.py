"""Who may talk: an actor and a learner of one protocol, one spec, one task and one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import TransportError
from robot_stack.types.spec import Spec


def check_hello(request: pb.HelloRequest, *, spec: Spec, task: str, run_id: str) -> None:
    """Raise TransportError with a line for each thing on which the two ends differ."""
    if request.protocol != PROTOCOL_VERSION:
        raise TransportError(
            f"protocol is {request.protocol} on the actor, must be {PROTOCOL_VERSION} as on the learner; "
            "install the same robot-stack on both machines"
        )
    wrong = []
    if request.spec_digest != spec.digest:
        wrong += list(spec_differences(request.spec_json, spec)) or [
            f"spec digest is {request.spec_digest!r} on the actor, must be {spec.digest!r} as on the learner"
        ]
    if request.task != task:
        wrong.append(f"task is {request.task!r} on the actor, must be {task!r} as on the learner")
    if request.run_id and request.run_id != run_id:
        wrong.append(f"run is {request.run_id!r} on the actor, must be {run_id!r} as on the learner")
    if wrong:
        raise TransportError("\n".join([*wrong, "start both with the same cell, task and run"]))


def spec_differences(actor_json: str, spec: Spec) -> Iterator[str]:
    """One line for each field on which the actor's spec differs."""
    try:
        theirs = json.loads(actor_json)
    except json.JSONDecodeError:
        yield f"spec is {actor_json[:40]!r} on the actor, must be JSON"
        return
    yield from _differences("spec", theirs, json.loads(spec.to_json()))


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
