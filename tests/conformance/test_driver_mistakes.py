"""What is wrong between a robot file and a driver is said in one sentence that names the topic."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory

from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import FaultKind
from tests.conformance.conformance_rig import ARM, FROM_TOPIC, GRIPPER, await_words, robot_of, wait_until
from tests.conformance.driver_doubles import ServoDouble, TrajectoryDouble, UrDouble

PROGRAM = "/io_and_status_controller/robot_program_running"
OTHER_QOS = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class DeafDouble(TrajectoryDouble):
    """Its controller asks for what nobody offers: late joiners' commands."""

    TOPIC = "/elsewhere"

    def __init__(self) -> None:
        super().__init__()
        self.create_subscription(JointTrajectory, TrajectoryDouble.TOPIC, lambda _: None, OTHER_QOS)


class PoseTakingDouble(TrajectoryDouble):
    """Its controller takes another type on the topic of trajectories."""

    TOPIC = "/elsewhere"

    def __init__(self) -> None:
        super().__init__()
        self.create_subscription(PoseStamped, TrajectoryDouble.TOPIC, lambda _: None, 10)


class TwoVoicesDouble(UrDouble):
    """Somebody else speaks on the topic of the program too, and cannot be heard."""

    def __init__(self) -> None:
        super().__init__()
        self.create_publisher(Bool, PROGRAM, 1)


@pytest.mark.parametrize(
    ("backend", "double", "changes", "words"),
    [
        ("servo", ServoDouble, {"joint_states": "/joint_stats"}, "joint states: nobody publishes /joint_stats; start"),
        ("servo", ServoDouble, {"command": "/srvo/twists"}, "nobody listens on /srvo/twists; start its controller"),
        ("servo", ServoDouble, {"status": "/gone"}, "status messages of MoveIt Servo: nobody publishes /gone"),
        ("servo", ServoDouble, {"joint_states": "/wrench"}, "/wrench carries geometry_msgs/msg/WrenchStamped, must be"),
        ("servo", ServoDouble, {"joint_states": "own_states"}, "nobody publishes /sim/own_states"),
        (
            "servo",
            ServoDouble,
            {"pose": FROM_TOPIC, "base_frame": "world"},
            "pose on /current_pose is in frame 'base', must be in 'world'",
        ),
        (
            "servo",
            ServoDouble,
            {"wrench": {"topic": "/wrench", "acts": "on_tool", "frame": "tcp"}},
            "wrench on /wrench is in frame 'base', must be in 'tcp'",
        ),
        (
            "joint_trajectory",
            DeafDouble,
            {},
            "/joint_trajectory_controller/joint_trajectory is offered as RELIABLE VOLATILE and asked for as RELIABLE "
            "TRANSIENT_LOCAL, which do not fit; change the QoS of /driver",
        ),
        (
            "joint_trajectory",
            PoseTakingDouble,
            {},
            "joint_trajectory carries geometry_msgs/msg/PoseStamped, must be trajectory_msgs/msg/JointTrajectory",
        ),
        (
            "ur",
            lambda: UrDouble(durability=DurabilityPolicy.VOLATILE),
            {},
            "robot_program_running is offered as RELIABLE VOLATILE and asked for as RELIABLE TRANSIENT_LOCAL",
        ),
        (
            "joint_trajectory",
            TrajectoryDouble,
            {"kinematics": {"source": "urdf_topic", "base_link": "base", "tcp_link": "tcp"}},
            "robot descriptions: nobody publishes /robot_description",
        ),
    ],
)
def test_what_does_not_fit_is_said(make_bench, backend, double, changes, words):
    with make_bench(backend, double, **changes) as bench:
        await_words(bench, words)


def test_qos_that_does_not_fit_is_in_the_diagnostics_too(make_bench):
    with make_bench("joint_trajectory", DeafDouble) as bench:
        name = f"robot: qos of {TrajectoryDouble.TOPIC}"
        wait_until(lambda: name in bench.safety.diagnoses, "diagnosis")
        level, message = bench.safety.diagnoses[name]
        assert level == 2
        assert "TRANSIENT_LOCAL" in message


def test_a_publisher_that_cannot_be_heard_is_diagnosed_although_another_one_is(make_bench):
    """Nothing is silent here: only the middleware's event tells."""
    with make_bench("ur", TwoVoicesDouble) as bench:
        bench.await_ready()
        wait_until(lambda: f"robot: qos of {PROGRAM}" in bench.safety.diagnoses, "diagnosis")
        bench.await_no_fault()


def test_a_tcp_that_driver_and_file_see_at_two_places_is_said(make_bench):
    moved = {"position_m": (0.0, 0.0, 0.3), "rpy_rad": (0.0, 0.0, 0.0)}
    kinematics = robot_of("servo").model_dump()["kinematics"]
    with make_bench("servo", pose=FROM_TOPIC, kinematics={**kinematics, "tcp": moved}) as bench:
        await_words(bench, "pose on /current_pose and the kinematics of the robot file are apart")


def test_joint_states_that_come_late_are_diagnosed_although_they_come(make_bench):
    with make_bench("joint_trajectory") as bench:
        bench.await_ready()
        bench.double.late_s = 1.0
        wait_until(lambda: bench.safety.diagnoses.get(f"robot: clocks of {ARM}", (0, ""))[0] == 1, "warning")
        assert "behind this machine's clock, must be within 50" in bench.safety.diagnoses[f"robot: clocks of {ARM}"][1]
        bench.await_no_fault()


def test_tf_without_tf2_is_refused_before_anything_moves(make_bench):
    with pytest.raises(ConfigError, match=r"tf2_ros is missing, must be importable .*; install tf2_ros_py of"):
        make_bench("servo", pose={"source": "tf"}).__enter__()


def test_a_gripper_action_that_is_not_installed_is_refused_by_name(make_bench):
    with pytest.raises(ConfigError, match="control_msgs/GripperCommand is missing, must be importable"):
        make_bench("joint_trajectory", gripper={**GRIPPER, "interface": "action"}).__enter__()


def test_a_message_type_that_is_not_installed_is_refused_by_name(make_bench):
    with pytest.raises(
        ConfigError, match=r"moveit_msgs/\w+ is missing, must be importable for this robot file; install moveit_msgs"
    ):
        make_bench("servo", status_type="moveit_msgs/ServoStatus").__enter__()


def test_somebody_else_who_commands_the_driver_holds_the_arm_until_he_is_gone(make_bench) -> None:
    """A maker's launch file may start a gamepad's node, which moves the arm past the safety process."""
    with make_bench("joint_trajectory") as bench:
        bench.await_ready()
        joystick = bench.double.create_publisher(JointTrajectory, TrajectoryDouble.TOPIC, 1)
        name = bench.double.get_fully_qualified_name()
        await_words(bench, f"{name} publishes commands on {TrajectoryDouble.TOPIC} too")
        assert bench.safety.kinds[-1] is FaultKind.SECOND_SENDER
        bench.double.destroy_publisher(joystick)
        bench.await_no_fault()
