"""The cell over DDS: rates, ages, a demonstration, and what happens when a process is killed.

Bounds are checked against the stamps that the safety filter and the robot write when they decide, so that a busy
machine can delay what the test sees, but never make it wrong.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError
from robot_stack.types.transition import EpisodeKind
from tests.nodes.cell_rig import START_S, running_cell, wait_until

MS = 1_000_000


@pytest.fixture(scope="module")
def run():
    return load_run("peg_in_and_out", ["cell.dds_domain=60"])


@pytest.fixture(scope="module")
def started(run, tmp_path_factory):
    with running_cell(run, tmp_path_factory.mktemp("cell")) as (cell, supervisor):
        from tests.nodes.watcher import Watcher

        with Watcher(run.run.cell, run.robot.name) as watcher:
            wait_until(lambda: watcher.applied and watcher.commands, 10, "commands and applied twists")
            yield cell, supervisor, watcher


@pytest.fixture
def cell(started):
    return started[0]


@pytest.fixture
def supervisor(started):
    return started[1]


@pytest.fixture
def watcher(started):
    return started[2]


def moving(samples) -> bool:
    return bool(samples) and float(np.abs(samples[-1][1]).max()) > 1e-4


def test_observations_are_fresh_and_the_filter_keeps_its_rate(cell, watcher):
    cell.reset(0)
    ages, blind = [], 0
    for _ in range(20):
        observation = cell.observe()
        blind += observation is None
        if observation is not None:
            ages.append(observation.age_s)
        time.sleep(0.05)
    assert blind <= 10
    assert float(np.median(ages)) < 0.12
    stamps = [decision.command.stamp_ns for decision in watcher.decisions[-100:]]
    assert 80.0 < 1e9 / float(np.median(np.diff(stamps))) < 120.0


def test_start_is_refused_unless_ready_and_the_filter_says_why(cell):
    cell.reset(0)
    cell.start("a", EpisodeKind.EVAL)
    with pytest.raises(RobotError, match="must be READY"):
        cell.start("b", EpisodeKind.EVAL)
    cell.finish()
    wait_until(lambda: shown(cell) in (Mode.READY, Mode.POLICY), 10, "an arm that is ready")


def test_the_person_takes_out_again_what_was_put_in_and_the_socket_stays(cell):
    for seed, task_id, back in ((1, "peg_insert", False), (2, "peg_insert_back", True)):
        cell.reset(seed, task_id=task_id, scene=not back)
        wait_until(lambda: cell.truth() is not True, 5, "another way, another goal")
        rose_m = -cell._link.states["fr3"].T_base_tcp.position_m[2]
        cell.start(f"demo{seed}", EpisodeKind.DEMO)
        said, deadline_s = (), time.monotonic() + 20.0
        while "success" not in said and time.monotonic() < deadline_s:
            time.sleep(0.1)
            said += cell.events()
        cell.finish()
        assert "success" in said
        assert cell.truth() is True
        rose_m += cell._link.states["fr3"].T_base_tcp.position_m[2]
        assert bool(rose_m > 0.05) is back


def test_a_demonstration_reaches_success_and_every_tick_is_labelled_human(cell):
    cell.reset(1)
    cell.start("demo", EpisodeKind.DEMO)
    cell.executed()
    sources, twists, said = [], [], ()
    deadline_s = time.monotonic() + 20.0
    while "success" not in said and time.monotonic() < deadline_s:
        time.sleep(0.1)
        window = cell.executed()["fr3"]
        sources.append(window.source)
        twists.append(window.twist)
        said += cell.events()
    cell.finish()
    assert "success" in said
    assert cell.truth() is True
    assert np.mean([source is Source.HUMAN for source in sources]) > 0.7
    assert float(np.abs(twists).max()) > 0.02


def test_a_killed_policy_leaves_zero_commands_within_160_ms(cell, watcher, run, tmp_path):
    (tmp_path / "run.yaml").write_text(run.to_yaml())
    script = Path(__file__).with_name("policy_process.py")
    words = [sys.executable, str(script), "--run", str(tmp_path / "run.yaml")]
    with subprocess.Popen(words) as policy:
        try:
            wait_until(lambda: watcher.policy, START_S, "policy commands")
            cell.reset(2)
            cell.start("e", EpisodeKind.EVAL)
            wait_until(lambda: moving(watcher.commands), 15, "motion")
            policy.send_signal(signal.SIGKILL)
            killed_ns = time.monotonic_ns()
        finally:
            policy.kill()
    wait_until(lambda: shown(cell) is Mode.HOLD, 10, "HOLD")
    wait_until(lambda: watcher.commands[-1][0] > killed_ns + 400 * MS, 10, "commands after the kill")
    late = [twist for stamp_ns, twist in watcher.commands if stamp_ns > killed_ns + 160 * MS]
    assert late
    assert not np.any(late)


def test_a_killed_teleop_in_control_leads_to_hold_and_the_person_resumes(cell, supervisor, watcher):
    cell.reset(3)
    cell.start("d", EpisodeKind.DEMO)
    wait_until(lambda: moving(watcher.commands), 15, "motion")
    os.kill(supervisor.pid("teleop"), signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    wait_until(lambda: watcher.decisions[-1].command.stamp_ns > killed_ns + 300 * MS, 10, "decisions after the kill")
    after = {each.mode for each in watcher.decisions if each.command.stamp_ns > killed_ns + 161 * MS}
    assert after == {Mode.HOLD}  # nobody starts it again before the supervisor looks
    wait_until(lambda: supervisor.step() or shown(cell) is Mode.HUMAN, 20, "teleop back and resumed")
    assert supervisor.restarts("teleop") == 1
    cell.finish()


def test_a_killed_camera_blinds_the_cell_by_name_and_comes_back(cell, supervisor):
    cell.reset(4)
    os.kill(supervisor.pid("camera_wrist"), signal.SIGKILL)
    wait_until(lambda: cell.observe() is None and "camera wrist" in cell.problem(), 10, "blindness")
    wait_until(lambda: supervisor.step() or cell.observe() is not None, 20, "camera back")
    assert supervisor.restarts("camera_wrist") == 1


def test_a_frozen_safety_process_lets_the_robot_stop_within_60_ms_and_its_death_ends_the_run(cell, supervisor, watcher):
    """Last: it ends the cell of this module."""
    cell.reset(5)
    cell.start("d", EpisodeKind.DEMO)
    wait_until(lambda: moving(watcher.applied), 15, "motion")
    os.kill(supervisor.pid("safety"), signal.SIGSTOP)
    frozen_ns = time.monotonic_ns()
    wait_until(lambda: watcher.applied[-1][0] > frozen_ns + 200 * MS, 10, "applied twists after the freeze")
    late = [twist for stamp_ns, twist in watcher.applied if stamp_ns > frozen_ns + 60 * MS]
    assert not np.any(late)
    wait_until(lambda: silent(cell), 10, "silence noticed")
    os.kill(supervisor.pid("safety"), signal.SIGKILL)
    wait_until(lambda: supervisor.step() or supervisor.ending, 10, "end of the run")
    assert "safety" in supervisor.ending
    began_s = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began_s < 10.0
    assert supervisor.alive() == ()


def shown(cell) -> Mode | None:
    """None while nothing was heard for a moment: on a busy machine that may be this process's own fault."""
    try:
        return cell.mode()
    except RobotError:
        return None


def silent(cell) -> bool:
    try:
        cell.mode()
    except RobotError as error:
        return "silent" in str(error)
    return False
