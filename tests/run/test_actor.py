"""What an actor meets between two episodes is said, and it goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import cast

import pytest
from fake_cell import FakeCell
from tiny_run import write_run

from robot_stack.rollout.actor import Actor
from robot_stack.runs.metrics import read_metrics
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.client import LearnerClient
from robot_stack.types.errors import ConfigError
from robot_stack.types.params import Params


class FakeClient:
    """A learner in training, with parameters that it hands out once."""

    refusal = ""

    def __init__(self, params: Params) -> None:
        self._fresh: Params | None = params

    def latest(self) -> Params | None:
        params, self._fresh = self._fresh, None
        return params

    def status(self, timeout_s: float) -> LearnerStatus:
        return LearnerStatus(phase="training")


def test_parameters_of_an_encoder_that_is_not_here_end_no_actor(tmp_path: Path) -> None:
    cell, said, stop = FakeCell(), list[str](), threading.Event()
    reference = {"encoder": "of tomorrow", "settings": "{}"}
    params = Params(
        version=1,
        tensors={},
        sha256="",
        metadata={
            "trunk": "t",
            "trunk_trained": "false",
            "trunk_reference": json.dumps(reference),
            "algorithm": "rlpd",
            "settings": "{}",
        },
    )
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, FakeClient(params)), "a")

    def say(message: str) -> None:
        said.append(message)
        stop.set()

    assert actor.run(stop, say) == "stopped"
    assert len(said) == 1
    assert said[0].startswith("episode not run: encoder is 'of tomorrow', must be one of")
    assert [row["kind"] for row in read_metrics(tmp_path / "a.jsonl")] == ["fault"]
    assert cell.calls == []


def test_plans_that_cannot_be_read_are_refused_by_file(tmp_path: Path) -> None:
    cell = FakeCell()
    (tmp_path / "a.protocol.json").write_text('{"level": ')
    client = cast(LearnerClient, FakeClient(Params(version=1, tensors={}, sha256="", metadata={})))
    with pytest.raises(ConfigError, match=r"a\.protocol\.json is unreadable .* remove it to begin at level 0"):
        Actor(write_run(tmp_path), tmp_path, cell, cell, client, "a")
