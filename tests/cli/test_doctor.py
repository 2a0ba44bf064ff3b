"""The doctor at the simulated cell, and its prompts."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from robot_stack.cli.cell import doctor, own_cell
from robot_stack.cli.cell.own_cell import Enter
from robot_stack.cli.main import VERBS, main
from robot_stack.config.resolve import load_run
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec, cell_processes
from robot_stack.runs.paths import RunPaths
from robot_stack.types.finding import Level
from robot_stack.workcell.checkup import finding
from robot_stack.workcell.checkup.operator import Reach
from tests.nodes.cell_rig import START_S, wait_until

RUN = load_run("peg_insert")


def test_the_command_that_comes_once_all_is_well_is_whole() -> None:
    typed = doctor._onward(load_run("fr3_table"), "fr3_table", ["cell.dds_domain=7"], Path("my cells"))
    program, verb, *words = shlex.split(typed)
    parser = argparse.ArgumentParser()
    VERBS[verb].add(parser)
    asked = parser.parse_args(words)
    assert (program, asked.what, asked.name, asked.root) == ("robot-stack", "workspace", "fr3_table", Path("my cells"))


def test_the_simulated_cell_is_fit_and_the_findings_are_json(tmp_path) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    command = [sys.executable, "-m", "robot_stack.cli.main", "doctor", "sim", "--dry", "--seconds", "1.5", "--json"]
    command += ["--set", "cell.dds_domain=62"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    findings = json.loads(result.stdout)["findings"]
    failed = [each["check"] for each in findings if each["level"] == Level.FAIL]
    assert not set(failed) - {"camera", "robot", "safety", "teleop", "clock"}, findings  # a busy machine is slow
    assert result.returncode == bool(failed)
    checks = [each["check"] for each in findings]
    assert {"ros", "disk", "memory", "gpu", "nodes", "dds", "clock", "topics", "robot", "workspace"} <= set(checks)
    assert checks.count("camera") == len(RUN.cameras)
    estop = next(each for each in findings if each["check"] == "estop")
    assert "the device is a script" in estop["text"]


def test_a_second_commander_and_a_mismatch_in_a_running_cell_are_named(tmp_path, monkeypatch, capsys) -> None:
    """The folder of a cell that runs already is listened to, and nothing else is started."""
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    monkeypatch.chdir(tmp_path)
    run = load_run("peg_insert", ["cell.dds_domain=67"])
    resolved = str(RunPaths(tmp_path).resolved)
    rogue = (sys.executable, str(Path(__file__).with_name("rogue_process.py")), "--run", resolved)
    table = (*cell_processes(run, tmp_path), ProcessSpec(name="rogue", argv=rogue))
    with (
        prepared(run, tmp_path) as ready,
        Supervisor(table, environment=ready.environment, log_folder=ready.log_folder),
    ):
        said = ready.log_folder / "rogue.log"
        wait_until(lambda: "up" in said.read_text().splitlines(), START_S, "the second commander")
        exit_code = main(["doctor", str(tmp_path), "--dry", "--seconds", "1.5"])
    printed = capsys.readouterr()
    assert exit_code == 1, printed.err
    lines = printed.out.splitlines()
    (commanders,) = [line for line in lines if line.split()[1] == "publishers"]
    assert commanders.endswith("/sim/_wire/fr3/safety/cmd has /sim/rogue, /sim/safety, must have one; end the others")
    (mismatch,) = [line for line in lines if line.split()[1] == "qos"]
    assert (
        "/sim/_wire/fr3/state: /sim/robot offers RELIABLE VOLATILE, /sim/rogue wants RELIABLE TRANSIENT_LOCAL"
        in mismatch
    )
    (silent,) = [line for line in lines if line.split()[1] == "silence"]
    assert "/sim/nobody/here: /sim/rogue listens, nobody publishes" in silent
    assert "then robot-stack doctor" in lines[-1]


class Operator:
    """Stands in for `Listening` and `Enter`: at each look something has happened."""

    def __init__(self, *happenings) -> None:
        self._happenings = list(happenings)
        self.node = SimpleNamespace(
            arms={"fr3": SimpleNamespace(reaches={}, deadman=False)},
            stops=[],
            stop_pressed_ns=None,
            requests={"clear_stop": None},
        )
        self.answers: list[tuple[bool, str]] = []
        self._enter = False
        self.enter = SimpleNamespace(ask=lambda text: None, pressed=self.pressed)

    def listen(self, seconds, until=lambda: False) -> bool:
        while not until():
            if not self._happenings:
                return False
            self._happenings.pop(0)(self)
        return True

    def pressed(self) -> bool:
        was, self._enter = self._enter, False
        return was

    def ask(self, client, request):
        success, message = self.answers.pop(0)
        if success:
            self.node.stops.append((20, False))
        return SimpleNamespace(success=success, message=message)


def press_enter(operator: Operator) -> None:
    operator._enter = True


def stop(operator: Operator) -> None:
    operator.node.stop_pressed_ns = 5_000_000
    operator.node.stops.append((17_000_000, True))


def test_a_stop_that_is_pressed_released_and_cleared_is_ok() -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    operator = Operator(stop, press_enter, press_enter)
    operator.answers = [(False, "arm moves at 0.020, must stand still"), (True, "")]
    found = doctor._estop(operator, operator.enter)
    assert (found.level, found.text) == (Level.OK, "pressed and released, seen in 12 ms")


def test_a_stop_that_nobody_presses_fails_and_one_that_stays_is_a_warning() -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    idle = Operator(press_enter)
    assert doctor._estop(idle, idle.enter).level is Level.FAIL
    stuck = Operator(stop, press_enter)
    stuck.answers = [(False, "deadman is held, must be released")]
    found = doctor._estop(stuck, stuck.enter)
    assert found.level is Level.WARN
    assert "deadman is held" in found.text


def test_the_axes_are_asked_for_until_all_have_moved_or_enter() -> None:
    axes = RUN.task.arm.axes

    def move_all(operator: Operator) -> None:
        operator.node.arms["fr3"].reaches = {axis: Reach(low=-1.0, high=1.0) for axis in axes}
        operator.node.arms["fr3"].deadman = True

    moved = Operator(move_all)
    assert doctor._axes(RUN.arms["fr3"], moved, moved.enter).level is Level.OK
    idle = Operator(press_enter)
    assert doctor._axes(RUN.arms["fr3"], idle, idle.enter).level is Level.FAIL


def test_without_ros_the_machine_is_still_looked_at(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.host, "measure_gpu", lambda run: finding.ok("gpu", "none"))
    assert doctor.run("sim", dry=True) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAIL  ros")
    assert "rclpy cannot be imported; source the setup file" in lines[0]
    assert any(line.split()[1] == "disk" for line in lines)
    assert lines[-1].endswith("Next: mend what FAIL names, then robot-stack doctor sim")


def test_a_learner_that_does_not_answer_is_a_warning(monkeypatch) -> None:
    remote = load_run("peg_insert", ["cell.learner_address=127.0.0.1:1"])
    assert [each.check for each in doctor._learner(remote)] == ["gpu"]
    monkeypatch.setattr(doctor, "LOOPBACK", ())
    (found,) = doctor._learner(remote)
    assert (found.level, found.check) == (Level.WARN, "learner")


def test_enter_is_seen_once_per_line_and_never_waited_for() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream, os.fdopen(writing, "w") as keys:
        enter = Enter(stream)
        assert not enter.pressed()
        keys.write("\n")
        keys.flush()
        assert enter.pressed()
        assert not enter.pressed()
        keys.close()
        assert not enter.pressed()


def test_nobody_is_asked_without_a_terminal(monkeypatch) -> None:
    with open(os.devnull) as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert Enter.on_terminal() is None


def test_all_that_does_not_start_is_named_at_once_and_says_why(tmp_path, monkeypatch, capsys) -> None:
    """A shipped cell whose drivers' message packages and devices are not here."""
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    monkeypatch.chdir(tmp_path)
    exit_code = main(["doctor", "ur5e_table", "--dry", "--seconds", "1"])
    printed = capsys.readouterr().out
    if importlib.util.find_spec("ur_dashboard_msgs") is not None:
        pytest.skip("the messages of the UR are here")
    assert exit_code == 1
    failed = [line for line in printed.splitlines() if line.startswith("FAIL") and line.split()[1] == "node"]
    assert any("robot ended with exit code 1: ur_dashboard_msgs/SafetyMode is missing" in line for line in failed)
    if importlib.util.find_spec("evdev") is None:
        assert any("teleop ended with exit code 1: module evdev is missing" in line for line in failed), printed
    if not Path("/dev/v4l/by-id").exists():
        blind = [line.split()[2] for line in printed.splitlines() if line.startswith("FAIL  camera")]
        assert blind == ["wrist:", "front:"], printed


@pytest.mark.slow
def test_where_something_is_missing_nobody_waits_for_what_its_rate_would_be(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    monkeypatch.chdir(tmp_path)
    unplugged = ("--set", "cell.cameras.front.model=generic_v4l2", "--set", "cell.cameras.front.serial=NOT_HERE")
    assert main(["doctor", "sim", "--dry", "--seconds", "600", "--set", "cell.dds_domain=92", *unplugged]) == 1
    said = capsys.readouterr()
    assert "nothing is heard of camera front: all else is looked at briefly" in said.err
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert any(line.startswith("FAIL camera front: no image") for line in lines)
    assert any(line.startswith("ok nodes robot, safety") for line in lines), "what is there is looked at all the same"


def test_of_a_cell_that_runs_already_nobody_waits_for_a_start(monkeypatch) -> None:
    monkeypatch.setattr(own_cell, "HANGS_S", 0.01)
    old, young = (own_cell.CellWatch(None, age_s=age_s) for age_s in (41.0, 1.0))
    wait_until(lambda: old.hang(["camera_front"]), START_S, "the end of the wait")
    assert not young.hang(["camera_front"]), "its processes may be starting"
    assert (old.ending(), dict(old.failures)) == ("", {})


@pytest.mark.slow
def test_nobody_waits_for_a_process_that_hangs_before_it_says_anything(tmp_path, monkeypatch, capsys) -> None:
    """It lives and works at nothing, as one that waits for a lock or a serial port does; the rest is looked at."""
    pytest.importorskip("rclpy", reason="no ROS on this machine")

    def with_one_that_hangs(resolved, folder):
        for row in cell_processes(resolved, folder):
            hangs = row.name == "camera_front"
            yield replace(row, argv=(sys.executable, "-c", "import time; time.sleep(3600)")) if hangs else row

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_cell, "cell_processes", with_one_that_hangs)
    monkeypatch.setattr(doctor, "START_S", 3600.0)
    assert main(["doctor", "sim", "--dry", "--seconds", "600", "--set", "cell.dds_domain=92"]) == 1
    said = capsys.readouterr()
    assert re.search("nothing is heard of camera_front, .*camera front.*: all else is looked at briefly", said.err)
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert any(line.startswith("FAIL node") and "camera_front" in line for line in lines), said.out
    assert any("camera wrist" in line and "Hz" in line for line in lines), said.out


class Starting:
    """A cell that starts, as a node hears it and a supervisor sees it, on a clock of its own."""

    def __init__(self, *names: str) -> None:
        self.now_s = 100.0
        self.beats: dict[str, int] = {}
        self.failures: dict[str, str] = {}
        self.names, self.silent_parts, self.ended = names, ["state of fr3"], ""

    def silent(self) -> list[str]:
        return [name for name in self.names if name not in self.beats]

    def missing(self, dead=()) -> list[str]:
        return [*(name for name in self.silent() if name not in dead), *self.silent_parts]

    def ending(self) -> str:
        return self.ended

    def hang(self, names) -> bool:
        return False

    def seconds(self, settled, most_s: float = 100.0) -> float:
        """Return after how long it counts as settled."""
        begun_s = self.now_s
        while not settled() and self.now_s < begun_s + most_s:
            self.now_s += 0.1
        return self.now_s - begun_s


@pytest.fixture
def starting(monkeypatch) -> Starting:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    cell = Starting("robot", "camera_wrist")
    monkeypatch.setattr(doctor.time, "monotonic", lambda: cell.now_s)
    return cell


def test_a_process_that_fails_once_and_is_started_again_is_waited_for(starting) -> None:
    starting.beats = {"robot": 1}
    starting.failures = {"camera_wrist": "camera_wrist ended with exit code 1"}
    settled = doctor._Settled(starting, starting)
    assert starting.seconds(settled, most_s=30.0) == pytest.approx(30.0, abs=0.2), "it may still come up"
    starting.beats["camera_wrist"] = 1
    starting.silent_parts = []
    assert starting.seconds(settled) == 0.0


def test_what_is_silent_beside_a_failure_is_waited_for_some_seconds_and_no_longer(starting) -> None:
    starting.beats = {"robot": 1}
    starting.failures = {"camera_wrist": "camera_wrist ended with exit code 1"}
    starting.ended = "camera_wrist ended with exit code 1"
    assert doctor._Settled(starting, starting)(), "the first failure ends the first wait"
    settled = doctor._Settled(starting, starting, least_s=doctor.OTHERS_S)
    assert starting.seconds(settled) == pytest.approx(doctor.DEVICES_S, abs=0.2)
    starting.silent_parts = []
    settled = doctor._Settled(starting, starting, least_s=doctor.OTHERS_S)
    assert starting.seconds(settled) == pytest.approx(doctor.OTHERS_S, abs=0.2), "others may fail too"
