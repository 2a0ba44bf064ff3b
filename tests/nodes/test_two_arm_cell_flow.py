"""A cell with two arms over DDS: real processes, a demonstration with two hands, one arm's trouble is both arms'."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.cli.check_log import violations
from robot_stack.config.cell import TaughtPose
from robot_stack.config.resolve import load_run
from robot_stack.config.task import StartConfig
from robot_stack.types.command import Mode, Source
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.command_log import read_log
from tests.nodes.cell_rig import START_S, running_cell, wait_until

MS = 1_000_000
# At the shipped rates this cell takes two slow cores by itself, before any test looks at it.
HALVED = ("safety.rate_hz=50", "cameras.above.rate_hz=15", "cameras.front.rate_hz=15")


@pytest.fixture(scope="module", params=[HALVED, pytest.param((), marks=pytest.mark.slow)], ids=["halved", "shipped"])
def two_arms(request):
    return load_run("two_arm_insert", ["cell.dds_domain=61", "task.sim.clearance_m=0.006", *request.param])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("two_arms")


@pytest.fixture(scope="module")
def started(two_arms, folder):
    with running_cell(two_arms, folder) as (cell, supervisor):
        from tests.nodes.watcher import Watcher

        with Watcher(two_arms.run.cell, "left") as left, Watcher(two_arms.run.cell, "right") as right:
            wait_until(lambda: left.commands and right.commands, 10, "commands of both arms")
            yield cell, supervisor, {"left": left, "right": right}


def test_a_demonstration_with_two_hands_reaches_success(started):
    cell, _, watchers = started
    cell.reset(1)
    seen = []
    wait_until(lambda: seen.append(cell.observe()) or seen[-1] is not None, 10, "an observation")
    assert seen[-1].proprio.shape == (36,)
    cell.start("demo", EpisodeKind.DEMO)
    cell.executed()
    sources, moved, said, true = [], {"left": 0.0, "right": 0.0}, (), []
    deadline_s = time.monotonic() + 25.0
    while "success" not in said and time.monotonic() < deadline_s:
        time.sleep(0.1)
        for arm, window in cell.executed().items():
            sources.append(window.source)
            moved[arm] = max(moved[arm], float(np.abs(window.twist).max()))
        said += cell.events()
        true.append(cell.truth())
    assert "success" in said
    wait_until(lambda: true.append(cell.truth()) or True in true, 2, "the simulator's verdict, on a topic of its own")
    cell.finish()
    assert np.mean([source is Source.HUMAN for source in sources]) > 0.5  # a crowded machine begins late
    assert min(moved.values()) > 0.02
    decided = [[each.command.stamp_ns for each in watcher.decisions] for watcher in watchers.values()]
    first_ns, last_ns = max(each[0] for each in decided), min(each[-1] for each in decided)  # one may be behind
    left, right = ({stamp_ns for stamp_ns in each if first_ns <= stamp_ns <= last_ns} for each in decided)
    assert len(left & right) > 0.9 * len(left) > 30  # both arms are decided about at the same instants


def test_both_arms_go_to_their_starts_at_once(started, two_arms, monkeypatch):
    cell, _, _ = started
    cell.reset(3)
    link, goals = cell._link, {}
    arms, starts = {}, {}
    with link.locked():
        states = dict(link.states)
    for name, way_m in (("left", [0.03, 0.0, 0.0]), ("right", [0.0, 0.03, -0.02])):
        pose = states[name].T_base_tcp
        goals[name] = pose.position_m + way_m
        taught = TaughtPose(
            joints_rad=tuple(states[name].joints_rad),
            position_m=tuple(goals[name]),
            quaternion_xyzw=tuple(pose.quaternion_xyzw),
        )
        arms[name] = two_arms.cell.arms[name].model_copy(update={"poses": {"near": taught}})
        starts[name] = StartConfig(pose="near", clearance_m=0.0)
    reset = two_arms.task.reset.model_copy(update={"starts": starts, "timeout_s": 20.0})
    task = two_arms.task.model_copy(update={"reset": reset})
    run = replace(two_arms, cell=two_arms.cell.model_copy(update={"arms": arms}), task=task)
    monkeypatch.setattr(cell, "_run", run)
    monkeypatch.setattr(cell, "_arms", run.arms)
    cell.reset(3)
    with link.locked():
        for name, goal in goals.items():
            assert np.linalg.norm(link.states[name].T_base_tcp.position_m - goal) < 0.005, name


def test_a_policy_that_falls_silent_holds_both_arms(started, two_arms, tmp_path):
    cell, _, watchers = started
    (tmp_path / "run.yaml").write_text(two_arms.to_yaml())
    script = Path(__file__).with_name("policy_process.py")
    words = [sys.executable, str(script), "--run", str(tmp_path / "run.yaml")]
    with subprocess.Popen(words) as policy:
        try:
            wait_until(lambda: all(watcher.policy for watcher in watchers.values()), START_S, "policy commands")
            cell.reset(2)
            cell.start("e", EpisodeKind.EVAL)
            wait_until(
                lambda: all(moving(watcher.commands) for watcher in watchers.values()), 60, "motion of both arms"
            )
        finally:
            policy.kill()
            killed_ns = time.monotonic_ns()
    wait_until(lambda: str(cell.reason()).startswith("policy silent for"), 10, "HOLD, and why")
    wait_until(
        lambda: all(watcher.commands[-1][0] > killed_ns + 400 * MS for watcher in watchers.values()), 10, "commands"
    )
    for watcher in watchers.values():
        late = [twist for stamp_ns, twist in watcher.commands if stamp_ns > killed_ns + 160 * MS]
        assert late
        assert not np.any(late)


def test_what_each_arm_was_told_is_recorded_and_within_its_limits(started, folder):
    """Last: it ends the cell of this module."""
    _, supervisor, _ = started
    supervisor.stop()
    for arm in ("left", "right"):
        (file,) = (folder / "commands" / arm).glob("*.jsonl.gz")
        log = read_log(file)
        assert (log.arm, log.whole) == (arm, True)
        assert {Mode.HUMAN, Mode.POLICY, Mode.HOLD} <= {decision.mode for decision in log.decisions}
        assert log.applied
        assert violations(log) == []


def moving(samples) -> bool:
    return bool(samples) and float(np.abs(samples[-1][1]).max()) > 1e-4
