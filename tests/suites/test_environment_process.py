"""An environment in a process of its own is the same environment, and its process can die at any moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from policies.learner import TensorBatch
from policies.rlpd.learner import RLPDLearner
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.evaluate import NullSink
from robot_stack.suites.environment_process import EnvironmentProcess
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.suites.training import Budget, LockstepTraining
from robot_stack.types.errors import RobotError
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from tests.suites.point_mass import LONGEST, Failing, Flat, make, straight
from tests.suites.test_training import CONFIG

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def beside() -> Iterator[EnvironmentProcess]:
    process = EnvironmentProcess(make)
    yield process
    process.close()


def test_it_says_what_the_environment_says_in_every_step(beside: EnvironmentProcess) -> None:
    here = make()
    assert beside.observation_space == here.observation_space
    assert beside.action_space == here.action_space
    rng = np.random.default_rng(0)
    for seed in (3, 4):
        seen, wanted = beside.reset(seed=seed)[0], here.reset(seed=seed)[0]
        over = False
        while not over:
            assert seen.keys() == wanted.keys()
            assert all((seen[name] == wanted[name]).all() for name in wanted)
            action = rng.uniform(0, 2, 2).astype(np.float32)
            seen, *told, info = beside.step(action)
            wanted, *truth, about = here.step(action)
            assert told == [float(truth[0]), *truth[1:]]
            assert {name: info[name] for name in about} == about
            over = truth[1] or truth[2]


def test_an_info_of_many_kinds_comes_over_from_another_process() -> None:
    process = EnvironmentProcess(Flat)
    try:
        seen, info = process.reset(seed=0)
        assert seen.shape == (4,)
        assert info["process"] != os.getpid()
        seen, _, _, _, info = process.step(np.zeros(2, np.float32))
        assert process.observation_space.contains(seen)
        assert info["where"].tolist() == [0.0, 1.0, 2.0]
        assert info["words"] == "near"
        assert "nested" not in info
    finally:
        process.close()


def test_meanwhile_is_called_once_in_each_step_and_not_in_a_reset(beside: EnvironmentProcess) -> None:
    called: list[int] = []
    beside.meanwhile = lambda: called.append(1)
    try:
        beside.reset(seed=0)
        assert not called
        for number in range(1, 4):
            beside.step(np.zeros(2, np.float32))
            assert len(called) == number
    finally:
        beside.meanwhile = lambda: None


def test_a_process_that_was_killed_is_named_and_ends_the_episode_as_a_fault() -> None:
    process = EnvironmentProcess(Flat)
    try:
        cell = GymnasiumCell(process)
        loop = ControlLoop(cell, cell.spec, cell, LoopLimits(episode_steps=5))
        child = int(process.reset(seed=0)[1]["process"])
        process.meanwhile = lambda: os.kill(child, signal.SIGKILL)
        header = EpisodeHeader(
            episode_id="000000-eval-a", kind=EpisodeKind.EVAL, task="t", actor="a", started_unix_s=1.0, seed=0
        )
        outcome = loop.run_episode(header, None, NullSink())
        assert outcome.end is EndReason.FAULT
        assert "process of the environment has ended, must run until it is closed" in outcome.ticks.hold_reasons[0]
        with pytest.raises(RobotError, match="process of the environment has ended"):
            process.reset(seed=1)
    finally:
        process.close()


def test_an_environment_that_fails_is_quoted_and_asked_no_more() -> None:
    process = EnvironmentProcess(Failing)
    try:
        process.reset(seed=0)
        with pytest.raises(RobotError, match=r"environment has failed \(ValueError: no such place\), must run until"):
            process.step(np.zeros(2, np.float32))
        with pytest.raises(RobotError, match="process of the environment has ended"):
            process.reset(seed=0)
    finally:
        process.close()


def test_an_error_of_what_is_done_meanwhile_is_told_and_the_environment_goes_on(beside: EnvironmentProcess) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    beside.reset(seed=0)
    beside.meanwhile = fail
    try:
        with pytest.raises(ZeroDivisionError):
            beside.step(np.zeros(2, np.float32))
    finally:
        beside.meanwhile = lambda: None
    beside.step(np.zeros(2, np.float32))
    beside.reset(seed=0)


def test_it_is_closed_in_the_middle_of_a_step_too() -> None:
    process = EnvironmentProcess(make)
    process.reset(seed=0)
    process.meanwhile = process.close
    with pytest.raises(RobotError, match="process of the environment has ended"):
        process.step(np.zeros(2, np.float32))
    process.close()


def test_updates_are_made_beside_the_next_step_and_all_before_an_evaluation(
    beside: EnvironmentProcess, monkeypatch
) -> None:
    cell = GymnasiumCell(beside, expert=straight)
    budget = Budget(demos=2, online_steps=70, episode_steps=LONGEST, eval_every=40, eval_episodes=1)
    config = CONFIG.model_copy(update={"batch_size": 16})
    training = LockstepTraining(cell, config, budget, seed=0, beside=beside)
    at: list[int] = []
    waiting: list[bool] = []
    is_stepping = False
    update, step = RLPDLearner.update, beside.step

    def stepped(action: np.ndarray) -> Any:
        nonlocal is_stepping
        is_stepping = True
        told = step(action)
        is_stepping = False
        return told

    def watched(learner: RLPDLearner, batch: TensorBatch) -> dict[str, torch.Tensor]:
        at.append(training.online_steps)
        waiting.append(is_stepping)
        return update(learner, batch)

    monkeypatch.setattr(RLPDLearner, "update", watched)
    monkeypatch.setattr(beside, "step", stepped)
    found = training.run()
    assert [each.updates for each in found] == [each.online_steps for each in found]
    assert at == list(range(1, 71))
    assert waiting.count(False) <= len(found), "but for the last ones before an evaluation"
    assert waiting.count(True) >= 60
