"""Every shipped robot file of a real arm: the doctor looks at a cell with it, and a double that stands still."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.cli.cell import doctor, own_cell
from robot_stack.cli.main import main
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.nodes.tools.doctor import ArmHeard, DoctorNode
from robot_stack.processes.profile import ros_environment
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec, cell_processes
from robot_stack.runs.paths import RunPaths
from robot_stack.types.finding import Level
from robot_stack.workcell.checkup.streams import CameraStream
from tests.nodes.cell_rig import START_S, wait_until

SECONDS = float(os.environ.get("DOCTOR_SECONDS", "2"))
"""The figure asked for is a minute: DOCTOR_SECONDS=60."""
DRIVERS = str(Path(__file__).with_name("still_drivers.py"))
PLAIN = {"status_type": "std_msgs/Int8", "robot_state_type": "std_msgs/UInt8", "safety_mode_type": "std_msgs/UInt8",
         "recovery_type": "std_srvs/Trigger"}  # fmt: skip
"""Relays in the place of messages that only a driver's own package has."""
SLOW = {"camera", "robot", "safety", "teleop", "clock", "topics", "dds", "nodes", "load"}
"""What a busy machine spoils."""
ROBOT_FILES = {path.stem: YAML(typ="safe").load(path) for path in sorted((config_root() / "robots").glob("*.yaml"))}
ROBOTS = [name for name, said in ROBOT_FILES.items() if said["backend"] not in ("sim", "so101")]
OF_EACH_BACKEND = {ROBOT_FILES[name]["backend"]: name for name in reversed(ROBOTS)}.values()
"""One arm each; the others are looked at by `make thorough`."""
SAYS = {"joint_states_rate_hz": 30, "joint_states_publisher": "drivers"}
"""What the doubles answer at the start: they are slower than real drivers, and have no controller manager."""


def write_cell(root: Path, robot: str) -> None:
    """A cell, a run and a task for that robot, its file with what stands in for foreign packages."""
    said = dict(ROBOT_FILES[robot])
    base = said["base_frame"]
    foreign = {
        "servo": ("status_type",), "franka": ("robot_state_type", "recovery_type"), "ur": ("safety_mode_type",),
    }.get(said["backend"], ())  # fmt: skip
    said |= {key: PLAIN[key] for key in foreign}
    if said.get("gripper", {}).get("interface") == "action":
        said["gripper"] |= {"interface": "commands", "command": "/gripper/commands"}
        for name in ("command_type", "grasp_epsilon_m"):
            said["gripper"].pop(name, None)
    said["driver"] = SAYS
    camera = {"model": "generic_topic", "source_topic": "/wrist/image_raw"}
    files = {
        f"robots/{robot}": said,
        "cells/bench": {
            "robot": robot,
            "workspace": {"frame": base, "min_m": [-1.2, -1.2, -1.2], "max_m": [1.2, 1.2, 1.4]},
            "cameras": {"wrist": camera},
            "teleop": "joy",
            "safety": "table",
            "dds_domain": 74,
            "learner_address": "127.0.0.1:50051",
        },
        "tasks/reach": {
            "name": "reach",
            "text": "reach",
            "arm": {"axes": ["x", "y", "z"], "translation_m": 0.005, "rotation_rad": 0.01, "gripper": "none"},
            "episode_steps": 20,
            "proprio": [{"name": "tcp_pose", "size": 6}],
            "reset": {"by": "operator", "prompt": "move nothing", "timeout_s": 10},
            "success": {"threshold": 0.8, "n_of_m": {"n": 1, "m": 1}},
        },
        "runs/bench": {
            "cell": "bench",
            "task": "reach",
            "seed": 0,
            "rate_hz": 10,
            "algorithm": {"name": "rlpd"},
            "encoder": {"name": "embedded"},
            "reward": {"name": "progress"},
            "training": {"demos": 2, "max_episodes": 2, "max_robot_minutes": 1, "eval_episodes": 1},
        },
    }
    for name, content in files.items():
        path = root / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))  # JSON is YAML


@pytest.mark.parametrize(
    "robot", [pytest.param(name, marks=() if name in OF_EACH_BACKEND else pytest.mark.slow) for name in ROBOTS]
)
def test_a_cell_with_the_arm_at_rest_is_fit(
    robot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The doctor in this process, which has loaded everything after the first; test_doctor.py has it as a command."""
    write_cell(tmp_path / "hardware_configs", robot)
    run = load_run("bench", root=tmp_path / "hardware_configs")
    beside = tmp_path / "drivers"
    beside.mkdir()
    RunPaths(beside).resolved.write_text(run.to_yaml())
    words = ("--run", str(RunPaths(beside).resolved))
    row = ProcessSpec(name="drivers", argv=(sys.executable, DRIVERS, *words), realtime=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ros = ros_environment(None, run.cell.dds_domain, beside)  # a driver's shell: Fast DDS as it comes
    with Supervisor((row,), environment={**os.environ, **ros}, log_folder=beside):
        wait_until(lambda: "up" in (beside / "drivers.log").read_text().splitlines(), START_S, "the drivers")
        exit_code = main(["doctor", "bench", "--dry", "--seconds", str(SECONDS), "--json"])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    findings = json.loads(printed.out)["findings"]
    failed = {each["check"]: each["text"] for each in findings if each["level"] == Level.FAIL}
    assert not set(failed) - SLOW, failed
    drivers = [each for each in findings if each["check"] == "driver"]
    assert [each["level"] for each in drivers] == [Level.OK], drivers
    state = next(each for each in findings if each["check"] == "robot")
    assert "silent" not in state["text"], state
    assert not [each for each in findings if each["check"] == "silence"]
    print(robot, exit_code, *(f"{each['level']} {each['check']}: {each['text']}" for each in findings), sep="\n  ")


def look_at_a_broken_cell(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what is told of a cell whose driver and camera are away and one process of which ends at once."""
    robot = next(iter(OF_EACH_BACKEND))
    write_cell(root / "hardware_configs", robot)

    def with_one_that_fails(resolved, folder):
        for row in cell_processes(resolved, folder):
            fails = row.name == "command_recorder"
            yield replace(row, argv=(sys.executable, "-c", "raise SystemExit(3)")) if fails else row

    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    monkeypatch.setattr(own_cell, "cell_processes", with_one_that_fails)
    monkeypatch.setattr(doctor.Enter, "on_terminal", pytest.fail)  # with --dry, and where something is missing
    assert main(["doctor", "bench", "--dry", "--seconds", "600"]) == 1
    printed = capsys.readouterr()
    print(printed.out, printed.err)
    return [" ".join(line.split()[1:]) for line in printed.out.splitlines() if line.startswith("FAIL")]


def test_beside_a_process_that_fails_all_that_is_silent_is_named(tmp_path, monkeypatch, capsys) -> None:
    failed = look_at_a_broken_cell(tmp_path, monkeypatch, capsys)
    assert any(line.startswith("node command_recorder ended with exit code 3") for line in failed), failed
    assert [line.split(";")[0] for line in failed if not line.startswith("node")] == [
        "camera wrist: no image",
        f"robot {next(iter(OF_EACH_BACKEND))}: no state",
    ]


def test_what_a_dead_process_would_have_sent_is_not_missed_beside_it() -> None:
    node = object.__new__(DoctorNode)
    node._nodes, node.beats = ("robot", "teleop_left", "teleop_right", "camera_wrist"), {"teleop_left": 1}
    node.cameras, node.arms = {"wrist": CameraStream()}, {"left": ArmHeard(), "right": ArmHeard()}
    assert node.missing({"robot", "camera_wrist"}) == ["teleop_right", "teleop of left", "teleop of right"]
    assert node.missing({"teleop_right"}) == [
        *("robot", "camera_wrist", "camera wrist", "state of left", "state of right", "teleop of left"),
    ]
    assert node.untold({"teleop"}) == [], "one device of all arms"
