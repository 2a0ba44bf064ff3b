"""Cells with several arms: by name, each with its place, its box and its device."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.types.errors import ConfigError
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec

Edit = Callable[[str, str, str], None]
CELL, TASK = "cells/sim_two_arms.yaml", "tasks/two_arm_insert.yaml"
RIGHT_BOX = "rpy_rad: [0, 0, 1.5707963]}\n    workspace: {frame: base, min_m: [0.40, -0.10, 0.10], max_m: [0.54,"


def refusal(root: Path, *overrides: str, run: str = "two_arm_insert") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_run(run, overrides, root)
    return [line.replace(str(root.resolve()), "mine") for line in str(caught.value).splitlines()]


def test_the_arms_stand_in_the_order_of_the_cell_with_all_that_is_said_of_them(root: Path) -> None:
    resolved = load_run("two_arm_insert", root=root)
    left, right = resolved.arms.values()
    assert (left.name, right.name) == ("left", "right")
    assert left.robot == right.robot
    assert (left.action.axes, right.action.axes) == (("x", "y", "z"), ("x", "y", "z", "rz"))
    np.testing.assert_allclose(left.T_cell_base.position_m, [0.5, 0.6, 0.0])
    ahead = left.T_cell_base.rotation.apply([1.0, 0.0, 0.0])
    np.testing.assert_allclose(ahead, [0.0, -1.0, 0.0], atol=1e-6)
    assert left.teleop is right.teleop


def test_the_spec_lays_the_arms_out_one_after_the_other(root: Path) -> None:
    spec = load_run("two_arm_insert", root=root).spec()
    assert [(arm.name, arm.size) for arm in spec.arms] == [("left", 3), ("right", 4)]
    assert spec.action_size == 7


def test_one_arm_is_called_as_its_robot_and_stands_at_the_origin(root: Path) -> None:
    resolved = load_run("peg_insert", root=root)
    (arm,) = resolved.arms.values()
    assert (arm.name, resolved.robot) == ("fr3", arm.robot)
    np.testing.assert_array_equal(arm.T_cell_base.position_m, np.zeros(3))
    np.testing.assert_array_equal(arm.T_cell_base.quaternion_xyzw, [0, 0, 0, 1])


def test_the_digest_of_a_cell_with_one_arm_is_what_it_was() -> None:
    spec = Spec(
        arms=(ArmSpec(name="fr3", axes=("x", "y", "z", "rz"), translation_m=0.01, rotation_rad=0.06),),
        cameras=(CameraSpec(name="wrist", height_px=64, width_px=64),),
        proprio=(ProprioField(name="tcp_pose", size=6),),
        rate_hz=10.0,
    )
    assert spec.digest == "3c30659a462e1232379a8bbadf25bc1dafcb4fd516128b15602b046656460e25"


def test_the_robot_of_several_arms_has_to_be_asked_for_by_name(root: Path) -> None:
    with pytest.raises(ConfigError, match="arms are left, right, must be one here"):
        _ = load_run("two_arm_insert", root=root).robot


def test_boxes_that_overlap_in_the_cell_are_refused_with_both_names(root: Path, edit: Edit) -> None:
    edit(CELL, RIGHT_BOX, RIGHT_BOX.replace("0.54", "0.70"))
    (line,) = refusal(root)
    assert line.startswith("mine/cells/sim_two_arms.yaml:11:16: cell.arms.right.workspace: ")
    assert "workspaces of left and right overlap by 0.040 m in the cell, must be at least 0.12 m apart" in line


def test_boxes_that_are_too_near_are_refused_with_the_distance(root: Path, edit: Edit) -> None:
    edit(CELL, "apart_m: 0.12", "apart_m: 0.13")
    assert "workspaces of left and right are 0.120 m apart in the cell, must be at least 0.13 m" in refusal(root)[0]


def test_boxes_that_only_touch_are_too_near_even_without_a_distance(root: Path, edit: Edit) -> None:
    edit(CELL, "apart_m: 0.12  ", "apart_m: 0.0  ")
    text = (root / CELL).read_text().replace("max_m: [0.54,", "max_m: [0.60,")
    (root / CELL).write_text(text)
    assert "must be apart" in refusal(root)[0]


def test_a_turned_base_turns_its_box(root: Path, edit: Edit) -> None:
    edit(CELL, "rpy_rad: [0, 0, 1.5707963]", "rpy_rad: [0, 0, -1.5707963]")  # both look away from each other's side
    assert load_run("two_arm_insert", root=root).arms["right"].T_cell_base.rotation.apply([1, 0, 0])[1] < -0.99


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("arms:  ", "robot: fr3\narms:  ", "robot is given beside arms, must be said of each arm"),
        ("teleop: scripted", "", "teleop is missing, must name the device there is; add 'teleop'"),
        ("  left:\n", "  left:\n    teleop: scripted\n", "teleop is given beside that of left, must be one or"),
        ("  left:\n", "  Left:\n", "input should be a name of lower case letters"),
        ("position_m: [0.5, 0.6, 0.0]", "position_m: [0.5, 60, 0.0]", "less than or equal to 5"),
        ("rpy_rad: [0, 0, -1.5707963]", "rpy_rad: [0, 0, -90]", "greater than or equal to -3.14"),
    ],
)  # fmt: skip
def test_a_cell_says_each_thing_once(old: str, new: str, message: str, root: Path, edit: Edit) -> None:
    edit(CELL, old, new)
    assert any(message in line for line in refusal(root))


def test_a_cell_without_any_arm_is_refused(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "robot: fr3\n", "")
    assert any(
        "robot is missing, must be given where there are no arms" in line for line in refusal(root, run="peg_insert")
    )


def test_each_arm_may_have_a_device_of_its_own(root: Path, edit: Edit) -> None:
    (root / "teleop" / "stick.yaml").write_text(
        "device: joy\ntopic: /joy\ndeadman: motion\naxes: {x: 0}\nrate_hz: 50\ndeadzone: 0.1\n"
        "scale: {linear: 0.5, angular: 1.0}\nrelease_s: 0.5\n"
    )
    edit(CELL, "teleop: scripted\n", "")
    text = (root / CELL).read_text().replace("    robot: fr3\n", "    robot: fr3\n    teleop: stick\n")
    (root / CELL).write_text(text)
    resolved = load_run("two_arm_insert", ["teleops.right.rate_hz=80", "teleops.right.topic=/right/joy"], root)
    assert list(resolved.teleops) == ["left", "right"]
    assert [arm.teleop.rate_hz for arm in resolved.arms.values()] == [50.0, 80.0]
    with pytest.raises(ConfigError, match="must be one here"):
        _ = resolved.teleop
    edit(CELL, "right:\n    robot: fr3\n    teleop: stick\n", "right:\n    robot: fr3\n")
    assert any("must name the device for each arm; give right one" in line for line in refusal(root))


SPACEMOUSE = "device: spacemouse\nrate_hz: 50\ndeadzone: 0.1\nscale: {linear: 1.0, angular: 1.0}\n"
JOY = "device: joy\ndeadman: motion\naxes: {x: 0}\nrate_hz: 50\ndeadzone: 0.1\nscale: {linear: 1.0, angular: 1.0}\n"
GAMEPAD = JOY.replace("joy", "gamepad").replace("motion", "button").replace("x: 0", "x: ABS_X")


def devices(root: Path, edit: Edit, left: str, right: str) -> None:
    edit(CELL, "teleop: scripted\n", "")
    for arm, text in (("left", left), ("right", right)):
        (root / "teleop" / f"{arm}.yaml").write_text(text)
        edit(CELL, f"  {arm}:\n    robot: fr3\n", f"  {arm}:\n    robot: fr3\n    teleop: {arm}\n")


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (SPACEMOUSE, SPACEMOUSE, "device: one spacemouse may fit this and the match of arm left"),
        (SPACEMOUSE, SPACEMOUSE + "match: {serial: B}\n", "device: one spacemouse may fit this"),
        (SPACEMOUSE + "match: {usb: '256f:c635'}\n", SPACEMOUSE + "match: {serial: B}\n", "one spacemouse may fit"),
        (GAMEPAD + "match: {name: x-box}\n", GAMEPAD + "match: {name: X-Box 360}\n", "device: one gamepad may fit"),
        (JOY + "topic: /joy\n", JOY + "topic: /joy\n", "topic: input is '/joy', which also moves arm left"),
        (JOY + "topic: joy\n", JOY + "topic: /sim_two_arms/joy\n", "topic: input is '/sim_two_arms/joy', which also"),
    ],
)  # fmt: skip
def test_one_device_that_would_move_two_arms_is_refused(
    left: str, right: str, message: str, root: Path, edit: Edit
) -> None:
    devices(root, edit, left, right)
    (line,) = refusal(root)
    assert line.startswith("mine/teleop/right.yaml:")
    assert message in line


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (SPACEMOUSE + "match: {serial: A}\n", SPACEMOUSE + "match: {serial: B}\n"),
        (SPACEMOUSE + "match: {usb: '256f:c635', serial: A}\n", SPACEMOUSE + "match: {usb: '256f:c62b'}\n"),
        (GAMEPAD + "match: {name: x-box}\n", GAMEPAD + "match: {name: dualsense}\n"),
        (JOY + "topic: /left/joy\n", JOY + "topic: /right/joy\n"),
        (SPACEMOUSE, GAMEPAD + "match: {name: x-box}\n"),
    ],
)
def test_devices_that_are_told_apart_may_move_an_arm_each(left: str, right: str, root: Path, edit: Edit) -> None:
    devices(root, edit, left, right)
    assert list(load_run("two_arm_insert", root=root).teleops) == ["left", "right"]


def test_a_scripted_person_cannot_be_two(root: Path, edit: Edit) -> None:
    edit(CELL, "teleop: scripted\n", "")
    text = (root / CELL).read_text().replace("    robot: fr3\n", "    robot: fr3\n    teleop: scripted\n")
    (root / CELL).write_text(text)
    assert sum("a scripted operator has a hand for each arm" in line for line in refusal(root)) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  right:\n", "  rigth:\n", "task.arms.rigth: there is no arm 'rigth' in the cell; did you mean 'right'?"),
        ("arms:\n", "arm: {axes: [x], translation_m: 0.01, rotation_rad: 0.06, gripper: none}\narms:\n",
         "arm and arms are both given, must be one of them"),
    ],
)  # fmt: skip
def test_a_task_speaks_of_the_arms_of_the_cell(old: str, new: str, message: str, root: Path, edit: Edit) -> None:
    edit(TASK, old, new)
    assert any(message in line for line in refusal(root))


def test_a_task_that_forgets_an_arm_is_refused(root: Path, edit: Edit) -> None:
    text = (root / TASK).read_text()
    cut = text[text.index("  left:") : text.index("  right:")]
    edit(TASK, cut, "")
    assert any("arms are right, must be those of the cell; add left" in line for line in refusal(root))


def test_one_action_scale_may_stand_for_all_arms(root: Path, edit: Edit) -> None:
    text = (root / TASK).read_text()
    arms = text[text.index("arms:") : text.index("episode_steps:")]
    edit(TASK, arms, "arm: {axes: [x, rz], translation_m: 0.01, rotation_rad: 0.06, gripper: discrete}\n")
    spec = load_run("two_arm_insert", root=root).spec()
    assert [arm.axes for arm in spec.arms] == [("x", "rz"), ("x", "rz")]
    assert spec.discrete_gripper_indices == (2, 5)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("robots.left.base_frame=world", "cell.arms.left.workspace.frame: input should be the robot's base frame"),
        ("task.arms.right.translation_m=0.05", "task.arms.right.translation_m: 0.05 per step at 10.0 Hz is 0.5 m/s"),
        ("robots.middle.base_frame=world", "there is no 'robots.middle' in this run"),
        ("robots.left.joints=[]", "robots.left.joints is a limit and cannot be set on the command line"),
        ("cell.arms.left.workspace.max_m=[1, 1, 1]", "cell.arms is a limit and cannot be set on the command line"),
        ("cell.apart_m=0", "cell.apart_m is a limit and cannot be set on the command line"),
    ],
)
def test_mistakes_name_the_arm_and_its_place(override: str, message: str, root: Path) -> None:
    assert any(message in line for line in refusal(root, override))


@pytest.mark.long
def test_a_saved_run_with_two_arms_reads_back_the_same(root: Path, tmp_path: Path) -> None:
    resolved = load_run("two_arm_insert", ["robots.left.tcp_frame=left_tcp"], root)
    path = tmp_path / "resolved.yaml"
    path.write_text(resolved.to_yaml())
    again = load_resolved(path)
    assert again.parts() == resolved.parts()
    assert again.robots["left"].tcp_frame == "left_tcp"
    assert again.to_yaml() == resolved.to_yaml()
    assert again.spec().digest == resolved.spec().digest


def test_a_run_saved_by_a_program_that_knew_one_arm_reads_back(root: Path, tmp_path: Path) -> None:
    resolved = load_run("peg_insert", root=root)
    lines = resolved.to_yaml().splitlines()
    old = [line for line in lines if line.strip() not in ("arms: {}", "apart_m: 0.0")]
    assert len(old) == len(lines) - 3  # of the cell two, of the task one
    path = tmp_path / "resolved.yaml"
    path.write_text("\n".join(old))
    assert load_resolved(path).parts() == resolved.parts()


POSE = "{joints_rad: [0, -0.785, 0, -2.356, 0, 1.571, 0.785], position_m: [0.5, 0, 0.2], quaternion_xyzw: [1, 0, 0, 0]}"
RIGHT = "  right:\n"


def teach(edit: Edit, pose: str = POSE) -> None:
    """The right arm's pose `above`."""
    edit(CELL, RIGHT, f"{RIGHT}    poses: {{above: {pose}}}\n")


def test_each_arm_has_its_own_poses_and_its_own_start(root: Path, edit: Edit) -> None:
    teach(edit)
    resolved = load_run("two_arm_insert", ["task.reset.starts.right={pose: above, path: joints}"], root)
    left, right = resolved.arms.values()
    assert left.start is None
    assert right.start is not None
    assert right.poses[right.start.pose].position_m == (0.5, 0, 0.2)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("task.reset.start.pose=above", "task.reset.start: the cell has the arms left, right; say with 'starts'"),
        (f"cell.poses.above={POSE}", "cell.poses: the cell has the arms left, right; move them to the 'poses' of"),
        ("task.reset.starts.rigth.pose=above", "there is no arm 'rigth' in the cell; did you mean 'right'?"),
        ("task.reset.starts.left.pose=above", "task.reset.starts.left.pose: input should be one of the cell's poses"),
    ],
)
def test_a_pose_or_start_of_no_arm_is_refused_with_its_place(root: Path, edit: Edit, override, said) -> None:
    teach(edit)
    (line,) = refusal(root, override)
    assert said in line


def test_a_taught_pose_beyond_a_joints_range_is_refused_with_its_arm(root: Path, edit: Edit) -> None:
    teach(edit, POSE.replace("-0.785", "-9.0"))
    (line,) = refusal(root)
    assert "cell.arms.right.poses.above.joints_rad: joint2 is -9.0, must be within" in line


def test_what_only_several_arms_have_is_refused_of_one(root: Path) -> None:
    (line,) = refusal(root, "task.reset.starts.fr3.pose=above", run="peg_insert")
    assert "task.reset.starts: the cell has one arm" in line


@pytest.mark.parametrize(
    ("kinematics", "said"),
    [
        ("null", "are missing, must be in its file for a way along"),
        ("{source: urdf_topic, base_link: base, tcp_link: tcp}", "come over a topic"),
    ],
)
def test_a_way_along_the_joints_without_kinematics_in_a_file_is_refused(root: Path, kinematics: str, said: str) -> None:
    file = root / "robots" / "fr3.yaml"
    text, found = re.subn(r"^kinematics:.*\n(?: .*\n)+", f"kinematics: {kinematics}\n", file.read_text(), flags=re.M)
    assert found == 1
    file.write_text(text)
    start = "task.reset.start={pose: above, path: joints}"
    (line,) = refusal(root, f"cell.poses.above={POSE}", start, run="peg_insert")
    assert f"task.reset.start.path: kinematics of robot fr3 {said}" in line


def test_a_start_outside_the_box_is_refused(root: Path) -> None:
    above = f"cell.poses.above={POSE.replace('0.2]', '2.0]')}"
    (line,) = refusal(root, above, "task.reset.start.pose=above", run="peg_insert")
    assert "task.reset.start.pose: z of 'above' is 2.0 m, must be within the arm's workspace, " in line


def test_a_camera_on_the_hand_of_no_arm_is_refused(root: Path, edit: Edit) -> None:
    mount = "{arm: left, parent: tcp, position_m: [0, 0, 0], error_m: 0, quaternion_xyzw: [0, 0, 0, 1]}"
    model = "    model: realsense_d405\n"
    edit("cells/fr3_table.yaml", model, f"{model}    mount: {mount}\n")
    (line,) = refusal(root, run="fr3_table")
    assert "cell.cameras.wrist.mount.arm: there is no arm 'left' in the cell" in line
