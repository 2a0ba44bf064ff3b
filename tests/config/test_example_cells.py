"""The real cells that are shipped to be copied: whole, short, and such that one could begin with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.drivers import DriverRobot, FrankaRobot, UrRobot
from robot_stack.config.feetech import So101Robot
from robot_stack.config.files.library import config_root, run_of_cell
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes.table import cell_processes
from robot_stack.workcell.build_arm import build_chain

EXAMPLES = {"fr3_table": FrankaRobot, "so101_table": So101Robot, "ur5e_table": UrRobot}
FILES = [f"{folder}/{name}.yaml" for name in EXAMPLES for folder in ("cells", "runs")] + [
    "tasks/plug_insert.yaml",
    "tasks/cube_in_bowl.yaml",
]
DOCS = config_root().parent / "docs"

every_example = pytest.mark.parametrize("name", EXAMPLES)


@pytest.mark.long
@every_example
def test_it_resolves_by_the_name_of_its_cell_and_is_saved_as_it_is(name: str, tmp_path: Path) -> None:
    resolved = load_run(run_of_cell(name))
    assert isinstance(resolved.robot, EXAMPLES[name])
    assert resolved.task.reset.by == "operator"
    saved = tmp_path / "run.yaml"
    saved.write_text(resolved.to_yaml())
    again = load_resolved(saved)
    assert again.to_yaml() == resolved.to_yaml()
    assert again.spec().digest == resolved.spec().digest


@every_example
def test_nothing_of_it_is_simulated(name: str) -> None:
    resolved = load_run(name)
    assert {camera.backend for camera in resolved.cameras.values()} <= {"topic", "v4l2"}
    assert resolved.teleop.device in ("spacemouse", "gamepad", "so101_leader")
    names = [spec.name for spec in cell_processes(resolved, Path("runs") / name)]
    assert names == ["robot", "safety", "camera_wrist", "camera_front", "teleop", "command_recorder"]


@every_example
def test_home_is_inside_the_box_with_the_tool_well_inside_its_cone(name: str) -> None:
    resolved = load_run(name)
    robot, box = resolved.robot, resolved.cell.workspace
    assert isinstance(robot, DriverRobot)
    assert box is not None
    chain = build_chain(robot)
    assert chain is not None
    home = chain.pose(np.array(robot.home_rad))
    assert (np.array(box.min_m) < home.position_m).all()
    assert (home.position_m < np.array(box.max_m)).all()
    tilt_rad = np.arccos(np.clip(-home.rotation.as_matrix()[2, 2], -1.0, 1.0))
    assert tilt_rad < resolved.safety.tilt_cone_rad / 2


@every_example
def test_the_first_days_are_slower_and_softer_than_the_table(name: str) -> None:
    first, table = load_run(name).safety, load_run("peg_insert").safety
    assert first.max_speed_m_s <= 0.1 < table.max_speed_m_s
    assert first.hard_force_n < table.hard_force_n


@pytest.mark.parametrize("file", FILES)
def test_what_is_written_by_hand_is_at_most_forty_lines(file: str) -> None:
    assert len((config_root() / file).read_text().splitlines()) <= 40


@every_example
def test_the_pages_name_it(name: str) -> None:
    for page in ("bringup.md", "robots.md"):
        assert f"`{name}`" in (DOCS / page).read_text()
