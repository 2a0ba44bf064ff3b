"""A driver that says something else than the robot file is refused in one sentence; before that, nothing moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

import numpy as np

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.nodes.drivers import asking
from robot_stack.nodes.drivers.asking import active_controllers, parameter_values
from robot_stack.nodes.drivers.grippers import goal_of
from robot_stack.types.reason import FaultKind
from tests.conformance.conformance_rig import ARM, SAYS, await_words, wait_until
from tests.conformance.driver_doubles import ServoDouble, TrajectoryDouble, UnitlessDouble, servo_parameters

HANDSHAKE = f"robot: handshake of {ARM}"


class OldScaleDouble(ServoDouble):
    """Servo as the robot file once took it to be."""

    PARAMETERS = servo_parameters(**{"scale.linear": 0.5})


class PlanningFrameDouble(ServoDouble):
    """Twists are taken as those of the planning frame's origin: turning the tool would swing it."""

    PARAMETERS = servo_parameters(apply_twist_commands_about_ee_frame=False)


class HumbleDouble(ServoDouble):
    """A Servo that has no such parameter yet."""

    PARAMETERS = servo_parameters(apply_twist_commands_about_ee_frame=None)


class MuteDouble(ServoDouble):
    """Its node does not answer."""

    ANSWERS = False


@pytest.mark.parametrize(
    ("backend", "double", "changes", "words"),
    [
        (
            "servo",
            UnitlessDouble,
            {},
            "command_in is speed_units, must be what moveit_servo.command_in_type of /servo_node says: unitless; write "
            "command_in: unitless in the robot file, or change the driver",
        ),
        (
            "servo",
            OldScaleDouble,
            {},
            "linear_scale_m_s is 0.2, must be what moveit_servo.scale.linear of /servo_node says: 0.5; write "
            "linear_scale_m_s: 0.5 in the robot file",
        ),
        (
            "servo",
            PlanningFrameDouble,
            {},
            "write moveit_servo.apply_twist_commands_about_ee_frame: true in the driver's own file",
        ),
        (
            "joint_trajectory",
            TrajectoryDouble,
            {"driver": {**SAYS, "joint_states_rate_hz": 500.0}},
            "driver.joint_states_rate_hz is 500, must be what rate of /joint_states says: ",
        ),
        (
            "joint_trajectory",
            TrajectoryDouble,
            {"driver": {**SAYS, "joint_states_publisher": "joint_state_broadcaster"}},
            "driver.joint_states_publisher is joint_state_broadcaster, must be what publishers of /joint_states says: "
            "[driver]; start what is missing, or correct driver.joint_states_publisher in the robot file",
        ),
    ],
)
def test_what_the_driver_says_differently_is_refused_and_nothing_moves(make_bench, backend, double, changes, words):
    with make_bench(backend, double, **changes) as bench:
        bench.safety.twist = np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0])
        await_words(bench, words)
        assert bench.safety.kinds[-1] is FaultKind.CONTRADICTION
        bench.let_pass(0.2)
        assert not bench.moving()
        assert not any(np.any(values) for _, values in bench.double.heard.commands)
        wait_until(lambda: bench.safety.diagnoses.get(HANDSHAKE, (0, ""))[0] == 2, "diagnosis")
        assert words in bench.safety.diagnoses[HANDSHAKE][1]


def test_a_corrected_driver_is_asked_again(make_bench):
    with make_bench("servo", UnitlessDouble) as bench:
        await_words(bench, "command_in is speed_units")
        bench.double.parameters = servo_parameters()
        bench.await_no_fault()


def test_a_driver_that_does_not_answer_is_waited_for_and_contradicts_nothing(make_bench):
    with make_bench("servo", MuteDouble) as bench:
        await_words(bench, "driver is being asked for moveit_servo.command_in_type of /servo_node; wait a moment")
        assert bench.safety.kinds[-1] is FaultKind.NOT_READY
        bench.safety.twist = np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0])
        bench.let_pass(0.2)
        assert not bench.moving()
        assert bench.safety.diagnoses.get(HANDSHAKE, (0, ""))[0] == 0


def test_a_parameter_that_an_older_servo_does_not_have_is_said_and_holds_nothing(make_bench):
    with make_bench("servo", HumbleDouble) as bench:
        bench.await_ready()
        wait_until(lambda: bench.safety.diagnoses.get(HANDSHAKE, (0, ""))[0] == 1, "warning")
        assert (
            "apply_twist_commands_about_ee_frame of /servo_node cannot be asked for"
            in (bench.safety.diagnoses[HANDSHAKE][1])
        )


def test_without_the_messages_of_a_controller_manager_its_list_is_left_out_in_words(make_bench):
    asked = {**SAYS, "controller_manager": "/controller_manager", "controllers": ("joint_state_broadcaster",)}
    with make_bench("joint_trajectory", driver=asked) as bench:
        bench.await_ready()
        wait_until(lambda: bench.safety.diagnoses.get(HANDSHAKE, (0, ""))[0] == 1, "warning")
        assert (
            "controllers of /controller_manager cannot be asked for here; compare by hand"
            in (bench.safety.diagnoses[HANDSHAKE][1])
        )


def test_only_controllers_that_run_count():
    """controller_manager_msgs is not on every machine: an answer with the fields that count."""
    listed = [
        SimpleNamespace(name="joint_state_broadcaster", state="active"),
        SimpleNamespace(name="joint_trajectory_controller", state="inactive"),
    ]
    assert active_controllers(SimpleNamespace(controller=listed)) == ("joint_state_broadcaster",)


def test_the_type_of_an_action_is_read_as_in_a_robot_file(monkeypatch):
    """No package with an action is on every machine: the graph's words."""
    graph = [("/robotiq_gripper_controller/gripper_cmd", ["control_msgs/action/ParallelGripperCommand"])]
    monkeypatch.setattr(asking, "get_action_names_and_types", lambda node: graph)
    face = asking.Asking(SimpleNamespace(), ARM, SimpleNamespace(), SimpleNamespace())
    assert face._action_type(graph[0][0]) == "control_msgs/ParallelGripperCommand"
    assert face._action_type("/elsewhere/gripper_cmd") is None


def test_an_answer_of_parameters_is_read_by_type():
    double = SimpleNamespace(parameters={"a": "text", "b": 0.5, "c": True})
    answer = ServoDouble._on_get_parameters(
        double, SimpleNamespace(names=["a", "b", "c", "d"]), SimpleNamespace(values=[])
    )
    assert parameter_values(answer) == ["text", 0.5, True, None]


class FakeGoal:
    """control_msgs is not on every machine: a goal that takes what is set, as both action types' goals do."""

    def __init__(self) -> None:
        self.command = SimpleNamespace()


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("control_msgs/GripperCommand", {"position": 0.4, "max_effort": 130.0}),
        (
            "control_msgs/ParallelGripperCommand",
            {"name": ["robotiq_85_left_knuckle_joint"], "position": [0.4], "effort": [130.0]},
        ),
    ],
)
def test_a_goal_has_the_fields_of_its_action(kind, sent):
    shipped = load(config_root() / "robots" / "ur5e.yaml", ROBOTS).gripper
    gripper = shipped.model_copy(update={"command_type": kind})
    assert vars(goal_of(SimpleNamespace(Goal=FakeGoal), gripper, 0.4).command) == sent
