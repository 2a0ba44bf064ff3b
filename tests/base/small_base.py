"""A small cell with a base policy: its spec, a section that fits it, and a real server that answers for the base."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from robot_stack.config.base import AnyBase
from robot_stack.rollout.base.mapping import BaseMapping
from robot_stack.types.observation import Observation
from robot_stack.types.spec import BASE, ProprioField
from tests.learner.bench import SPEC, observation_of
from tests.reward_models.bad_server import Behaviour, raw

TEXT = "insert the peg"
CHUNK = [[0.1, 0.2, 9.0, -0.3]] * 5
"""In the base's terms: its third entry is one that nothing here does."""
OURS = np.array([0.2, -0.3, 1.0], np.float32)
"""The same as x, y, rz: twice the first, the last, and what is clipped of -5 times the second plus 6."""
SECTION: dict[str, Any] = {
    "kind": "http",
    "url": "http://127.0.0.1:1",
    "cameras": {"front": "observation.images.top"},
    "state": ["force", {"field": "tcp_pose", "scale": 100.0, "offset": 1.0}],
    "action": [
        {"name": "arm.x", "scale": 2.0},
        {"name": "arm.rz", "scale": -5.0, "offset": 6.0},
        None,
        "arm.y",
    ],
    "rate_hz": 10,
    "timeout_s": 0.5,
    "start_s": 1.0,
}
INFO = {"name": "small", "cameras": ["observation.images.top"], "state": 7, "actions": 4, "rate_hz": 10}
WITH_BASE = replace(SPEC, proprio=(*SPEC.proprio, ProprioField(name=BASE, size=3)))


def section(**change: Any) -> Any:
    """Return a checked `base:` section; one of a checkpoint has no address."""
    words = SECTION | change
    if "checkpoint" in words:
        del words["url"]
    return TypeAdapter(AnyBase).validate_json(json.dumps(words))


def mapping(**change: Any) -> BaseMapping:
    return BaseMapping(section(**change), SPEC, TEXT)


def seen(index: int = 0, stamp_ns: int = 0) -> Observation:
    """What is sensed, without the base's field."""
    return replace(observation_of(index), stamp_ns=stamp_ns)


def actions(table: Any) -> Behaviour:
    return raw(json.dumps({"actions": table}).encode())


def base_that(chunk: Behaviour, info: Any = INFO) -> Behaviour:
    """Return the behaviour of a server that says `info` of itself and answers questions like `chunk`."""

    def behave(handler: Any, body: dict[str, Any]) -> None:
        if handler.path.endswith("/info"):
            handler.reply(200, json.dumps(info).encode())
        else:
            chunk(handler, body)

    return behave
