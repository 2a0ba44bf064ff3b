"""`doctor --move` on the dry run: past real processes, each axis of the task is moved and passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.cli.cell import doctor
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.finding import Level
from robot_stack.workcell.checkup import finding

DOMAIN = 75
MOVE = f"""
import json
from robot_stack.cli.cell import doctor
from robot_stack.cli.run_folder import load_cell
from robot_stack.workcell.checkup.finding import plain
resolved = load_cell("peg_insert", ["cell.dds_domain={DOMAIN}"], None)
print(json.dumps(plain(doctor._first_motion(resolved, [], dry=True))))
"""


def moved(folder: Path) -> list[dict[str, str]]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-c", MOVE], cwd=folder, capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_arm_of_the_dry_run_passes_along_every_axis_of_its_task(tmp_path: Path) -> None:
    axes = load_run("peg_insert").arms["fr3"].action.axes
    for _ in range(3):  # a busy machine may hold the cell
        found = moved(tmp_path)
        if [each["level"] for each in found] == [Level.OK] * len(axes):
            break
    assert [each["text"].split(":")[0] for each in found] == [f"fr3 {axis}" for axis in axes]
    assert {each["level"] for each in found} == {Level.OK}, found


def test_nothing_moves_while_something_that_matters_has_failed() -> None:
    run = load_run("peg_insert")
    failed = [finding.fail("driver", "command_in is unitless"), finding.fail("camera", "17 Hz")]
    (said,) = doctor._first_motion(run, failed, dry=True)
    assert (said.level, said.text) == (Level.WARN, "nothing was moved, because of driver; mend that first")


def test_a_run_that_is_going_on_is_not_moved(tmp_path: Path) -> None:
    RunPaths(tmp_path).resolved.write_text("")
    with pytest.raises(ConfigError, match="is a run that is going on, must be a cell to be moved with --move"):
        doctor.run(str(tmp_path), move=True)


def test_a_contradiction_is_said_with_the_line_of_the_robot_file_to_change() -> None:
    run = load_run("ur5e_table")
    said = {
        "control": "contradicted",
        "control: why": "controllers of the driver differ",
        "driver.joint_states_rate_hz": "agreed",
        "driver.controllers": "cannot be asked",
    }
    failed, unasked = doctor.judge_handshake(run, "ur5e", said)
    lines = (config_root() / "robots" / "ur5e.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if text.startswith("control:"))
    assert failed.level is Level.FAIL
    assert failed.text == f"hardware_configs/robots/ur5e.yaml:{line}: controllers of the driver differ"
    assert unasked.level is Level.WARN
    assert "driver.controllers cannot be asked for here; compare by hand" in unasked.text


def test_a_driver_that_agrees_in_all_is_said_to() -> None:
    (said,) = doctor.judge_handshake(load_run("ur5e_table"), "ur5e", {"driver.joint_states_rate_hz": "agreed"})
    assert (said.level, said.check) == (Level.OK, "driver")
