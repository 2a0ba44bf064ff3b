"""What single drivers do besides the rules for all: other units, other sources, pauses, and the end of a commander."""

from __future__ import annotations

import math
import sys
from types import ModuleType

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

import numpy as np
from geometry_msgs.msg import TransformStamped
from std_msgs.msg import String

from robot_stack.control.safety.output_watchdog import OutputWatchdog
from robot_stack.nodes.qos import LATCHED
from robot_stack.nodes.robot import driven
from tests.conformance.conformance_rig import FROM_TOPIC, GRIPPER, await_words, misfit, robot_of, wait_until
from tests.conformance.driver_doubles import (
    FINGER_OPEN_M,
    TrajectoryDouble,
    UnitlessDouble,
    UrVelocityDouble,
    VelocityDouble,
)

DOWN = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0]


def test_a_paused_servo_is_silent_and_recovery_goes_on(make_bench):
    with make_bench("servo") as bench:
        bench.await_ready()
        bench.double.paused = True
        await_words(bench, "if Servo runs, it is paused, and /sim/fr3/recover goes on")
        assert bench.safety.recover().success
        bench.await_no_fault()
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


def test_a_forward_velocity_controller_goes_on_when_its_commander_dies(make_bench):
    """Why the cell must name what stops such an arm: nothing in this driver does."""
    with make_bench("forward_velocity") as bench:
        bench.await_ready()
        bench.safety.twist = DOWN
        wait_until(bench.moving, "motion")
        wait_until(lambda: abs(bench.double.arm.speeds).max() > 0.01, "speeds")
        bench.vanish()
        assert isinstance(bench.double, VelocityDouble)
        before = bench.double.arm.angles.copy()
        wait_until(lambda: abs(bench.double.arm.angles - before).max() > 0.01, "motion without a commander")


def test_a_joint_trajectory_ends_by_itself_when_its_commander_dies(make_bench):
    with make_bench("joint_trajectory") as bench:
        bench.await_ready()
        bench.safety.twist = DOWN
        wait_until(lambda: abs(bench.double.arm.speeds).max() > 0.01, "speeds")
        bench.vanish()
        wait_until(lambda: abs(bench.double.arm.speeds).max() < 1e-6, "rest")


@pytest.mark.parametrize("backend", ["pose_target", "franka"])
def test_the_last_pose_that_is_sent_is_where_the_arm_is_and_not_where_it_was_going(make_bench, backend):
    with make_bench(backend) as bench:
        bench.await_ready()
        bench.safety.twist = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0])
        wait_until(bench.moving, "motion")
        start = bench.pose()
        wait_until(lambda: bench.pose().relative_to(start).position_m[2] > 0.01, "motion at full speed")
        bench.deactivate()
        here = bench.pose()

        def ahead_m() -> float:
            """How far the newest pose that the driver has heard lies ahead of where the arm was."""
            return float(here.rotation.inv().apply(bench.double.heard.commands[-1][1][:3] - here.position_m)[2])

        wait_until(lambda: ahead_m() < 1e-3, "a last pose where the arm was")
        bench.let_pass(0.1)
        assert ahead_m() < 1e-3


def test_a_unitless_servo_is_told_shares_of_its_scales(make_bench):
    scales = {"linear_scale_m_s": 0.4, "rotational_scale_rad_s": 1.0}
    with make_bench("servo", UnitlessDouble, command_in="unitless", **scales) as bench:
        bench.await_ready()
        assert misfit(bench, DOWN) == ""
        assert bench.double.heard.refused == []


def test_a_ur_with_forward_velocities_is_followed_and_stops_with_its_program(make_bench):
    with make_bench("ur", UrVelocityDouble, control="forward_velocity") as bench:
        bench.await_ready()
        assert misfit(bench, DOWN) == ""
        bench.double.begin_fault()
        wait_until(lambda: "PROTECTIVE_STOP" in bench.safety.fault, "fault")
        wait_until(lambda: not np.any(bench.double.heard.commands[-1][1]), "zero speeds")


def test_a_gripper_behind_a_trajectory_controller_is_moved(make_bench):
    gripper = {**GRIPPER, "interface": "trajectory", "command": "/gripper/joint_trajectory"}
    with make_bench("joint_trajectory", gripper=gripper) as bench:
        bench.await_ready()
        bench.safety.gripper = 0.5
        wait_until(lambda: bench.double.gripper_wishes, "wish")
        assert bench.double.gripper_wishes[0] == pytest.approx(0.5 * FINGER_OPEN_M)


def fr3_urdf() -> str:
    """The FR3 of the shipped table as a URDF."""
    links = robot_of("servo").model_dump()["kinematics"]["links"]
    joints = [("{}", "revolute", link["a_m"], link["d_m"], link["alpha_rad"]) for link in links]
    lines = ["<robot name='fr3'>", *(f"<link name='link{number}'/>" for number in range(8)), "<link name='tcp'/>"]
    for number, (_, kind, a, d, alpha) in enumerate(joints, start=1):
        xyz = f"{a} {-math.sin(alpha) * d} {math.cos(alpha) * d}"
        lines.append(
            f"<joint name='fr3_joint{number}' type='{kind}'><origin xyz='{xyz}' rpy='{alpha} 0 0'/>"
            f"<parent link='link{number - 1}'/><child link='link{number}'/><axis xyz='0 0 1'/></joint>"
        )
    tip = f"<origin xyz='0 0 0.2104' rpy='0 0 {-math.pi / 4}'/><parent link='link7'/><child link='tcp'/>"
    return "\n".join([*lines, f"<joint name='hand' type='fixed'>{tip}</joint>", "</robot>"])


class DescribedDouble(TrajectoryDouble):
    """Its robot_state_publisher sends the URDF, latched."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptions = self.create_publisher(String, "/robot_description", LATCHED)

    def describe(self, text: str) -> None:
        self._descriptions.publish(String(data=text))


def test_an_arm_whose_urdf_comes_over_a_topic_is_followed(make_bench):
    described = {"source": "urdf_topic", "base_link": "link0", "tcp_link": "tcp"}
    with make_bench("joint_trajectory", DescribedDouble, kinematics=described) as bench:
        bench.double.describe(fr3_urdf().replace("fr3_joint4", "elbow"))
        await_words(bench, "/robot_description:11: moving joints from link0 to tcp are ['fr3_joint1', 'fr3_joint2',")
        bench.double.describe(fr3_urdf())
        bench.await_ready()
        assert misfit(bench, DOWN) == ""


def test_a_pose_from_tf_is_that_of_the_arm(make_bench, monkeypatch):
    """tf2_ros is not on every machine: the words of its buffer, in front of the double's arm."""
    fake, arms = ModuleType("tf2_ros"), []

    class TransformException(Exception):
        pass

    class Buffer:
        def lookup_transform(self, base: str, tcp: str, _) -> TransformStamped:
            if not arms:
                raise TransformException(f'"{tcp}" passed to lookupTransform argument does not exist')
            node = arms[0]
            pose, found = node.arm.pose(), TransformStamped()
            found.header.stamp, found.header.frame_id = node.get_clock().now().to_msg(), base
            point, turn = found.transform.translation, found.transform.rotation
            point.x, point.y, point.z = pose.position_m
            turn.x, turn.y, turn.z, turn.w = pose.quaternion_xyzw
            return found

    fake.Buffer, fake.TransformException = Buffer, TransformException
    fake.TransformListener = lambda buffer, node: None
    monkeypatch.setitem(sys.modules, "tf2_ros", fake)
    with make_bench("servo", pose={"source": "tf", "timeout_s": FROM_TOPIC["timeout_s"]}) as bench:
        wait_until(lambda: "/tf has no transform from base to tcp" in bench.safety.fault, "fault")
        arms.append(bench.double)
        bench.await_ready()
        off = bench.safety.states[-1][1].T_base_tcp.relative_to(bench.pose())
        assert np.linalg.norm(off.position_m) < 2e-3


def test_an_arm_forgets_the_command_that_its_machine_was_suspended_with(make_bench, monkeypatch):
    forgotten, hours = [], [0]
    monkeypatch.setattr(driven, "asleep_ns", lambda: hours[0] * 3_600_000_000_000)
    reset = OutputWatchdog.reset
    monkeypatch.setattr(OutputWatchdog, "reset", lambda watchdog: (forgotten.append(hours[0]), reset(watchdog)))
    with make_bench("servo") as bench:
        bench.await_ready()
        bench.safety.twist = DOWN
        wait_until(bench.moving, "motion")
        forgotten.clear()
        bench.let_pass(0.2)
        assert forgotten == []
        hours[0] = 1
        wait_until(lambda: forgotten == [1], "the command to be forgotten")
        bench.let_pass(0.2)
        assert forgotten == [1]
