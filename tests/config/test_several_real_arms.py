"""What contradicts itself between real arms, or between real arms and the rest of a run, is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes.table import cell_processes
from robot_stack.types.errors import ConfigError

Edit = Callable[[str, str, str], None]
CELL, TASK = "cells/sim_two_arms.yaml", "tasks/two_arm_insert.yaml"


def real_cell(root: Path, *, left: str = "panda", right: str = "kinova_gen3", by: str = "operator") -> None:
    """The two-arm cell with those robots, each box in the robot's own frame."""
    text = (root / CELL).read_text()
    for robot in (left, right):
        base = load(root / "robots" / f"{robot}.yaml", ROBOTS).base_frame
        text = text.replace("    robot: fr3\n", f"    robot: {robot}#\n", 1)
        text = text.replace("{frame: base,", f"{{frame: {base}#,", 1)
    text = text.replace("teleop: scripted", "teleop: spacemouse")
    (root / CELL).write_text(text.replace("#\n", "\n").replace("#,", ","))
    path = root / TASK
    text = path.read_text().replace("by: sim", f"by: {by}")
    for name, robot in (("left", left), ("right", right)):  # not all feel what they touch
        joints = len(load(root / "robots" / f"{robot}.yaml", ROBOTS).joints)
        text = text.replace(f"{name}.wrench, size: 6", f"{name}.joint_speeds, size: {joints}")
    path.write_text(text)


def refusal(root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_run("two_arm_insert", root=root)
    return str(caught.value).splitlines()


def test_two_real_arms_resolve_are_saved_and_have_one_robot_process(root: Path) -> None:
    real_cell(root)
    resolved = load_run("two_arm_insert", root=root)
    assert [robot.backend for robot in resolved.robots.values()] == ["servo", "joint_trajectory"]
    assert [spec.argv[2] for spec in cell_processes(resolved, root)].count("robot_stack.nodes.robot.node") == 1
    saved = root / "resolved.yaml"
    saved.write_text(resolved.to_yaml())
    assert load_resolved(saved).robots == resolved.robots


def test_a_real_arm_beside_a_simulated_one_is_refused(root: Path) -> None:
    real_cell(root, right="fr3")
    (line,) = refusal(root)
    assert line == (
        "mine/robots/panda.yaml:6:10: robots.left.backend: backend is 'servo' beside simulated arms, must be 'sim' for "
        "all arms or for none; name other robots"
    )


def test_only_a_simulator_puts_a_scene_back_by_itself(root: Path) -> None:
    real_cell(root, by="sim")
    (line,) = refusal(root)
    assert line.startswith("mine/tasks/two_arm_insert.yaml:25:7: task.reset.by: input should be 'operator' (got 'sim')")
    assert line.endswith("arm left is real, and nobody else puts its scene back; write 'operator'")


def test_a_single_real_arm_asks_for_a_person_too(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "robot: fr3", "robot: fr3_franka")
    with pytest.raises(ConfigError, match=r"peg_insert\.yaml:16:7: task\.reset\.by: input should be 'operator'"):
        load_run("peg_insert", root=root)


def test_in_simulation_a_person_may_put_the_scene_back(root: Path, edit: Edit) -> None:
    edit(TASK, "by: sim", "by: operator")
    assert load_run("two_arm_insert", root=root).task.reset.by == "operator"


def test_the_arm_whose_controller_keeps_the_last_speed_is_named(root: Path, edit: Edit) -> None:
    real_cell(root, right="ur5e")
    edit("robots/ur5e.yaml", "control: scaled_joint_trajectory", "control: forward_velocity")
    (line,) = refusal(root)
    assert line.startswith("mine/robots/ur5e.yaml:6:10: robots.right.backend: a forward velocity controller keeps")
    edit(CELL, "dds_domain: 0", "dds_domain: 0\ndownstream_timeout_s: 0.1")
    assert load_run("two_arm_insert", root=root).cell.downstream_timeout_s == 0.1


@pytest.mark.parametrize(
    ("scale", "limit"), [("linear_scale_m_s: 0.2", "0.25"), ("rotational_scale_rad_s: 0.8", "1.0")]
)
def test_the_arm_whose_servo_is_slower_than_safety_is_named(scale: str, limit: str, root: Path, edit: Edit) -> None:
    real_cell(root)
    key = scale.partition(":")[0]
    edit("robots/panda.yaml", "command_in: speed_units", "command_in: unitless")
    for each in ("linear_scale_m_s: 0.2", "rotational_scale_rad_s: 0.8"):
        name = each.partition(":")[0]
        edit("robots/panda.yaml", each, f"{name}: 0.1" if name == key else f"{name}: 1.0")
    (line,) = refusal(root)
    assert f"robots.left.{key}: input should be at least the safety limit {limit} (got 0.1)" in line
    assert line.startswith("mine/robots/panda.yaml:")


@pytest.mark.parametrize("shared", [False, True])
def test_the_arm_without_a_gripper_that_the_task_would_move_is_named(shared: bool, root: Path, edit: Edit) -> None:
    real_cell(root)
    panda = root / "robots" / "panda.yaml"
    panda.write_text(panda.read_text()[: panda.read_text().index("gripper:")])
    edit(TASK, "gripper: none          # the block", "gripper: discrete          # the block")
    if shared:  # one scale for all arms
        text = (root / TASK).read_text()
        left = text[text.index("  left:\n") + len("  left:\n") : text.index("  right:\n")]
        rest = text[text.index("episode_steps") :]
        (root / TASK).write_text(text[: text.index("arms:\n")] + "arm:\n" + left.replace("    ", "  ") + rest)
    (line,) = refusal(root)
    key = "task.arm.gripper" if shared else "task.arms.left.gripper"
    assert f"{key}: input should be 'none' (got 'discrete'): the robot has no gripper" in line
    assert line.startswith("mine/tasks/two_arm_insert.yaml:")


def test_two_arms_that_are_commanded_on_one_topic_are_refused_with_both_names(root: Path) -> None:
    real_cell(root, left="panda", right="panda")
    motion, gripper = refusal(root)
    assert "robots.right.command: input is " in motion
    assert "which also commands arm left; give each arm a robot file of its own" in motion
    assert "robots.right.gripper.command: input is " in gripper


def test_names_below_the_cell_and_from_the_root_are_compared_as_they_are_on_the_wire(root: Path, edit: Edit) -> None:
    real_cell(root)
    edit("robots/panda.yaml", "backend: servo", "backend: servo\ncommand: arm/way")
    edit(
        "robots/kinova_gen3.yaml",
        "command: /joint_trajectory_controller/joint_trajectory",
        "command: /sim_two_arms/arm/way",
    )
    (line,) = refusal(root)
    assert "robots.right.command: input is '/sim_two_arms/arm/way', which also commands arm left" in line


@pytest.mark.parametrize("path", sorted((config_root() / "robots").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_driver_says_where_it_is_commanded(path: Path) -> None:
    robot = load(path, ROBOTS)
    if isinstance(robot, DriverRobot) and not robot.over_topics:
        assert robot.command_topics == {}
    elif isinstance(robot, DriverRobot):
        keys = list(robot.command_topics)
        assert keys[0] in ("command", "trajectory")
        assert keys[1:] == ([] if robot.gripper is None else ["gripper.command"])
