"""What is wrong between a robot file and a driver is said in one sentence that names the topic."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from conformance_rig import FROM_TOPIC, wait_until
from driver_doubles import ServoDouble, TrajectoryDouble, UrDouble, VelocityDouble
from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory

from robot_stack.types.errors import ConfigError

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


def said(bench, words):
    wait_until(lambda: words in bench.safety.fault, f"{words!r}, not {bench.safety.fault!r}")
    assert "\n" not in bench.safety.fault
    return bench.safety.fault


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
            {"wrench": {"topic": "/wrench", "frame": "tcp"}},
            "wrench on /wrench is in frame 'base', must be in 'tcp'",
        ),
        (
            "joint_trajectory",
            DeafDouble,
            {},
            "/joint_trajectory_controller/joint_trajectory is offered as RELIABLE VOLATILE and asked for as RELIABLE "
            "TRANSIENT_LOCAL, which do not fit; change the QoS of driver",
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
        said(bench, words)


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
        assert bench.safety.fault == ""


def test_a_tcp_that_driver_and_file_see_at_two_places_is_said(make_bench):
    moved = {"position_m": (0.0, 0.0, 0.3), "rpy_rad": (0.0, 0.0, 0.0)}
    from conformance_rig import robot_of

    kinematics = robot_of("servo").model_dump()["kinematics"]
    with make_bench("servo", pose=FROM_TOPIC, kinematics={**kinematics, "tcp": moved}) as bench:
        said(bench, "pose on /current_pose and the kinematics of the robot file are apart")


def test_a_paused_servo_is_silent_and_recovery_goes_on(make_bench):
    with make_bench("servo") as bench:
        bench.await_ready()
        bench.double.paused = True
        said(bench, "if Servo runs, it is paused, and ~/recover goes on")
        assert bench.safety.recover().success
        wait_until(lambda: bench.safety.fault == "", "end of the fault")
        assert not bench.double.paused


def test_a_slow_pendant_slows_the_arm_and_no_target_runs_ahead(make_bench):
    with make_bench("ur") as bench:
        bench.double.scaling_percent = 20.0
        bench.await_ready()
        wait_until(lambda: bench.safety.values.get("speed_scaling_percent") == "20.0", "speed scaling")
        before = bench.pose()
        bench.drive([0.1, 0, 0, 0, 0, 0], 0.4)
        bench.let_pass(0.2)
        full_m = 0.1 * 0.4
        assert 0.05 * full_m < bench.pose().relative_to(before).position_m[0] < 0.35 * full_m


def test_joint_states_that_come_late_are_diagnosed_although_they_come(make_bench):
    with make_bench("joint_trajectory") as bench:
        bench.await_ready()
        bench.double.late_s = 1.0
        wait_until(lambda: bench.safety.diagnoses.get("robot: clocks", (0, ""))[0] == 1, "warning")
        assert "behind this machine's clock, must be within 50" in bench.safety.diagnoses["robot: clocks"][1]
        assert bench.safety.fault == ""


def test_tf_without_tf2_is_refused_before_anything_moves(make_bench):
    with pytest.raises(ConfigError, match="tf2_ros is missing, must be importable for a pose from TF"):
        make_bench("servo", pose={"source": "tf"}).__enter__()


def test_a_message_type_that_is_not_installed_is_refused_by_name(make_bench):
    with pytest.raises(
        ConfigError, match=r"moveit_msgs/\w+ is missing, must be importable for this robot file; install moveit_msgs"
    ):
        make_bench("servo", status_type="moveit_msgs/ServoStatus").__enter__()


def test_a_forward_velocity_controller_goes_on_when_its_commander_dies(make_bench):
    """Why the cell must name what stops such an arm: nothing in this driver does."""
    with make_bench("forward_velocity") as bench:
        bench.await_ready()
        bench.safety.twist = [0.0, 0.0, -0.05, 0.0, 0.0, 0.0]
        wait_until(bench.moving, "motion")
        wait_until(lambda: abs(bench.double.arm.speeds).max() > 0.01, "speeds")
        bench.vanish()
        assert isinstance(bench.double, VelocityDouble)
        before = bench.double.arm.angles.copy()
        wait_until(lambda: abs(bench.double.arm.angles - before).max() > 0.01, "motion without a commander")


def test_a_joint_trajectory_ends_by_itself_when_its_commander_dies(make_bench):
    with make_bench("joint_trajectory") as bench:
        bench.await_ready()
        bench.safety.twist = [0.0, 0.0, -0.05, 0.0, 0.0, 0.0]
        wait_until(lambda: abs(bench.double.arm.speeds).max() > 0.01, "speeds")
        bench.vanish()
        wait_until(lambda: abs(bench.double.arm.speeds).max() < 1e-6, "rest", 0.5)
