"""An evaluation of a task with stages says how far the episodes came, and of a task of one stage nothing."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.rollout import evaluate as module
from robot_stack.rollout.evaluate import Evaluation, NullSink, evaluate_in
from robot_stack.rollout.milestones import MilestoneSink
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell
from sim.tasks.drawer import Drawer

NAMES = ["took the handle", "opened the drawer", "lifted the block", "put it in", "closed the drawer on it"]


class Still:
    """A policy that moves nothing."""

    version, age_s = 1, 0.0

    def __init__(self, size: int) -> None:
        self._action = np.zeros(size, np.float32)

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return self._action


def step(index: int) -> Step:
    seen = Observation(stamp_ns=0, images={}, proprio=np.zeros(1, np.float32), age_s=0.0, skew_s=0.0)
    return Step(episode_id="e", index=index, observation=seen, action=None, end=EndReason.TIMEOUT)


def header(seed: int) -> EpisodeHeader:
    return EpisodeHeader(episode_id="e", kind=EpisodeKind.EVAL, task="drawer", actor="a", started_unix_s=0.0, seed=seed)


def test_what_held_once_counts_for_its_own_episode_only() -> None:
    holds = {"opened": False, "closed": False}
    sink = MilestoneSink(NullSink(), lambda: holds)
    for opened_at in (1, None):
        sink.begin(header(0))
        for index in range(3):
            holds["opened"] = index == opened_at
            sink.push(step(index))
    assert sink.reached == [{"opened": True, "closed": False}, {"opened": False, "closed": False}]
    result = Evaluation(successes=[False, False], durations_s=[1.0, 1.0], ages_s=[], reached=sink.reached)
    assert result.summary()["milestones"] == {"opened": 1, "closed": 0}


@pytest.mark.long
def test_an_evaluation_of_the_drawer_counts_its_milestones(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = load_run("drawer", ["task.episode_steps=4"])
    cell = build_local_cell(resolved, seed=0)
    task = cell.world.task
    assert isinstance(task, Drawer)
    monkeypatch.setattr(module, "policy_of", lambda resolved, params, seed: Still(resolved.spec().action_size))
    monkeypatch.setattr(task, "opening_m", lambda data: 0.06)
    summary = evaluate_in(cell, resolved, None, 2).summary()
    assert summary["milestones"] == dict.fromkeys(NAMES, 0) | {"opened the drawer": 2}
    assert summary["success"] == 0
    cell.close()


@pytest.mark.long
def test_an_evaluation_of_one_stage_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = load_run("peg_insert", ["task.episode_steps=3"])
    cell = build_local_cell(resolved, seed=0)
    monkeypatch.setattr(module, "policy_of", lambda resolved, params, seed: Still(resolved.spec().action_size))
    assert "milestones" not in evaluate_in(cell, resolved, None, 1).summary()
    cell.close()
