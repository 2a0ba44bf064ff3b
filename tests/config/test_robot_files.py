"""Facts about robot files of real arms: one model per driver, and mistakes with their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.drivers import DriverRobot, JointTrajectoryRobot, ServoRobot, UrRobot, asked_controllers
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.config.robot import SimRobot
from robot_stack.config.schema import MODELS
from robot_stack.processes.table import cell_processes
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.build import build_world

Edit = Callable[[str, str, str], None]

SERVO = """\
name: arm
backend: servo
base_frame: base
tcp_frame: tcp
command_in: speed_units
joints: [{name: a, min_rad: -1, max_rad: 1, max_speed_rad_s: 1, max_torque_nm: 1}]
home_rad: [0]
kinematics:
  source: dh
  convention: standard
  links: [{a_m: 0.1, alpha_rad: 0, d_m: 0}]
  tcp: {position_m: [0, 0, 0.1]}
"""


def refusal(text: str, folder: Path) -> list[str]:
    path = folder / "arm.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, ROBOTS)
    return [line.replace(f"{folder}/", "") for line in str(caught.value).splitlines()]


def test_the_backend_says_which_keys_there_are(tmp_path: Path) -> None:
    path = tmp_path / "arm.yaml"
    path.write_text(SERVO)
    robot = load(path, ROBOTS)
    assert isinstance(robot, ServoRobot)
    assert (robot.command, robot.status, robot.joint_states) == (
        "/servo_node/delta_twist_cmds",
        "/servo_node/status",
        "/joint_states",
    )
    assert robot.gripper is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("backend: servo\n", "", "arm.yaml:1:1: backend: field required; add 'backend'"),
        (
            "backend: servo",
            "backend: servoo",
            "arm.yaml:2:10: backend: input should be 'sim', 'servo', 'pose_target', 'franka', 'joint_trajectory', "
            "'forward_velocity', 'ur' or 'so101' (got 'servoo'); did you mean 'servo'?",
        ),
        (
            "backend: servo",
            "backend: 3",
            "arm.yaml:2:10: backend: input should be 'sim', 'servo', 'pose_target', 'franka', 'joint_trajectory', "
            "'forward_velocity', 'ur' or 'so101' (got 3)",
        ),
        (
            "home_rad: [0]",
            "home_rad: [0]\nstatus_typ: std_msgs/Int8",
            "arm.yaml:8:13: status_typ: extra inputs are not permitted (got 'std_msgs/Int8'); did you mean "
            "'status_type'?",
        ),
        (
            "home_rad: [0]",
            "home_rad: [0]\ncommand: delta twist",
            "arm.yaml:8:10: command: input should be a ROS name of letters, digits",
        ),
        (
            "source: dh",
            "source: dhh",
            "arm.yaml:9:11: kinematics.source: input should be one of 'dh', 'urdf_topic', 'urdf_file' (got 'dhh'); did "
            "you mean 'dh'?",
        ),
        ("  source: dh\n", "", "arm.yaml:8:1: kinematics.source: field required; add 'source'"),
        (
            "alpha_rad: 0",
            "alpha_rad: .nan",
            "arm.yaml:11:33: kinematics.links.0.alpha_rad: input should be a finite number (got nan)",
        ),
        (
            "alpha_rad: 0",
            "alfa_rad: 0",
            "arm.yaml:11:32: kinematics.links.0.alfa_rad: extra inputs are not permitted (got 0); did you mean "
            "'alpha_rad'?",
        ),
        (
            "d_m: 0}]",
            "d_m: 0}, {a_m: 0, alpha_rad: 0, d_m: 0}]",
            "arm.yaml:8:1: kinematics: kinematics has 2 links, must have 1; give one per joint",
        ),
        (
            "tcp: {position_m: [0, 0, 0.1]}",
            "tcp: {position_m: [0, 0, 0.1]}\npose: {source: topic, topc: /pose}",
            "arm.yaml:13:29: pose.topc: extra inputs are not permitted (got '/pose'); did you mean 'topic'?",
        ),
        (
            "tcp: {position_m: [0, 0, 0.1]}",
            "tcp: {position_m: [0, 0, 0.1]}\nwrench: {topic: /w, acts: on_tool, frame: flange}",
            "arm.yaml:13:9: wrench: tcp_in_frame is missing for frame 'flange', must be given where that is neither",
        ),
        (
            "tcp: {position_m: [0, 0, 0.1]}",
            "tcp: {position_m: [0, 0, 0.1]}\ngripper: {interface: commands, command: /g, joint: f, closed: 0.1, "
            "open: 0.1, max_width_m: 0.1, max_force_n: 9}",
            "arm.yaml:13:74: gripper.open: open is 0.1, must differ from closed (0.1); give the joint's two ends",
        ),
    ],
)
def test_a_mistake_is_said_once_with_its_place(old: str, new: str, line: str, tmp_path: Path) -> None:
    assert SERVO.count(old) == 1
    (said,) = refusal(SERVO.replace(old, new), tmp_path)
    assert said.startswith(line)


def test_a_pose_needs_kinematics_or_another_source(tmp_path: Path) -> None:
    bare = SERVO[: SERVO.index("kinematics")]
    (said,) = refusal(bare, tmp_path)
    assert "kinematics is missing, must be given to compute the pose; add it, or another pose source" in said
    path = tmp_path / "other.yaml"
    path.write_text(bare + "pose: {source: tf}\n")
    assert isinstance(load(path, ROBOTS), ServoRobot)


@pytest.mark.parametrize("backend", ["joint_trajectory", "forward_velocity", "ur"])
def test_joint_commands_need_kinematics(backend: str, tmp_path: Path) -> None:
    bare = SERVO[: SERVO.index("kinematics")].replace("command_in: speed_units\n", "").replace("servo", backend)
    bare += "pose: {source: tf}\n"
    assert refusal(bare, tmp_path) == ["arm.yaml:1:1: kinematics: field required; add 'kinematics'"]


def run_with(root: Path, edit: Edit, robot: str, *overrides: str, cell: str = ""):
    edit("cells/sim.yaml", "robot: fr3", f"robot: {robot}\n{cell}")
    edit("cells/sim.yaml", "frame: base", f"frame: {load_frame(root, robot)}")
    edit("tasks/peg_insert.yaml", "by: sim", "by: operator")
    edit("tasks/peg_insert.yaml", "{name: wrench, size: 6}", "{name: joint_speeds, size: JOINTS}")  # not all feel
    edit("tasks/peg_insert.yaml", "JOINTS", str(len(load(root / "robots" / f"{robot}.yaml", ROBOTS).joints)))
    edit("cells/sim.yaml", "teleop: scripted", "teleop: spacemouse")
    return load_run("peg_insert", overrides, root)


def load_frame(root: Path, robot: str) -> str:
    return load(root / "robots" / f"{robot}.yaml", ROBOTS).base_frame


@pytest.mark.parametrize(
    "robot", ["fr3_franka", "panda", "ur3e", "ur5e", "ur10e", "xarm6", "xarm7", "kinova_gen3", "so101"]
)
def test_a_run_on_a_shipped_arm_resolves_and_starts_the_robot_process(robot: str, root: Path, edit: Edit) -> None:
    resolved = run_with(root, edit, robot)
    assert isinstance(resolved.robot, DriverRobot)
    first = cell_processes(resolved, root)[0]
    assert first.name == "robot"
    assert "robot_stack.nodes.robot.node" in first.argv
    path = root / "resolved.yaml"
    path.write_text(resolved.to_yaml())
    assert load_resolved(path).robot == resolved.robot


def test_the_dry_runs_arm_is_still_the_simulator(root: Path) -> None:
    resolved = load_run("peg_insert", root=root)
    assert isinstance(resolved.robot, SimRobot)
    assert "robot_stack.nodes.robot.node" in cell_processes(resolved, root)[0].argv


def test_a_real_arm_is_not_simulated_by_mistake(root: Path, edit: Edit) -> None:
    with pytest.raises(ConfigError, match="backend of robot panda is 'servo', must be 'sim' to be simulated"):
        build_world(run_with(root, edit, "panda"))


def latched(root: Path, edit: Edit) -> None:
    edit("robots/ur5e.yaml", "control: scaled_joint_trajectory", "control: forward_velocity")


def test_a_controller_that_keeps_the_last_speed_is_refused_in_words(root: Path, edit: Edit) -> None:
    latched(root, edit)
    with pytest.raises(ConfigError) as caught:
        run_with(root, edit, "ur5e")
    said = str(caught.value)
    assert re.match(r"mine/robots/ur5e\.yaml:6:10: robot\.backend: a forward velocity controller keeps", said)
    assert "or say with cell.downstream_timeout_s what stops the arm" in said


def test_it_is_taken_where_the_cell_names_what_stops_the_arm(root: Path, edit: Edit) -> None:
    latched(root, edit)
    resolved = run_with(root, edit, "ur5e", cell="downstream_timeout_s: 0.1")
    assert isinstance(resolved.robot, UrRobot)


def test_what_stops_the_arm_cannot_be_claimed_on_the_command_line(root: Path, edit: Edit) -> None:
    latched(root, edit)
    with pytest.raises(
        ConfigError, match=r"cell\.downstream_timeout_s is a limit and cannot be set on the command line"
    ):
        run_with(root, edit, "ur5e", "cell.downstream_timeout_s=0.1")


def test_a_trajectory_controller_needs_no_such_word(root: Path, edit: Edit) -> None:
    assert isinstance(run_with(root, edit, "kinova_gen3").robot, JointTrajectoryRobot)


def test_servo_must_be_able_to_go_as_fast_as_safety_lets_it(root: Path, edit: Edit) -> None:
    edit("robots/panda.yaml", "command_in: speed_units", "command_in: unitless")
    with pytest.raises(ConfigError, match=r"linear_scale_m_s: input should be at least the safety limit 0\.25"):
        run_with(root, edit, "panda")


def test_a_task_cannot_move_a_gripper_that_is_not_there(root: Path, edit: Edit) -> None:
    text = (root / "robots/ur5e.yaml").read_text()
    (root / "robots/ur5e.yaml").write_text(text[: text.index("gripper:")])
    edit("tasks/peg_insert.yaml", "gripper: none", "gripper: discrete")
    with pytest.raises(
        ConfigError, match=r"peg_insert\.yaml:9:12: task\.arm\.gripper: .*the robot has no gripper; add one there"
    ):
        run_with(root, edit, "ur5e")


def test_the_controller_that_is_asked_for_is_told_by_its_topic_if_that_has_its_name() -> None:
    path = config_root() / "robots" / "ur5e.yaml"
    named = load(path, MODELS["robots"])
    assert isinstance(named, DriverRobot)
    assert asked_controllers(named)[0] == "scaled_joint_trajectory_controller"
    for topic in ("joint_trajectory", "/joint_trajectory"):
        bare = load(path, MODELS["robots"], [f"trajectory={topic}"])
        assert isinstance(bare, DriverRobot)
        assert asked_controllers(bare) == bare.driver.controllers
