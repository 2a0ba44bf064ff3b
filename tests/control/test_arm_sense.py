"""A robot's state out of a driver's messages: joints by name, frames that fit, ages that are honest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.drivers.arm_sense import ArmSense, Frames, JointReader, twist_between
from robot_stack.control.kinematics.joint_motion import JointLimits
from robot_stack.control.safety.bounds import soften_push
from robot_stack.control.safety.output_watchdog import HardLimits
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.workcell.build_arm import build_frames
from tests.control.fr3_chain import HOME, chain_of, limits_of, robot
from tests.control.wrapping_arm import WrappingArm

MS = 1_000_000
NAMES = [f"fr3_joint{number}" for number in range(1, 8)]
CHAIN = chain_of("fr3_franka")
FRAMES = Frames(base="base", tcp="tcp", wrench="base")


LIMITS = limits_of("fr3_franka")
HARD = HardLimits()


def reader(names=NAMES, limits: JointLimits | None = None) -> JointReader:
    return JointReader(names, "/joint_states", limits)


def take(
    joints: JointReader, angles=HOME, speeds=None, *, names=NAMES, stamp_ns: int = 1, now_ns: int = 1
) -> Fault | None:
    speeds = np.zeros(len(angles)) if speeds is None else speeds
    return joints.take(names, np.array(angles), np.array(speeds), stamp_ns, now_ns)


@settings(deadline=None)
@given(st.permutations([*NAMES, "finger", "other"]))
def test_joints_are_found_by_name_in_any_order(order: list[str]) -> None:
    joints = reader()
    values = np.array([float(ord(name[-1])) for name in order])
    assert joints.take(order, values, -values, 1, 1) is None
    assert joints.newest is not None
    np.testing.assert_array_equal(joints.newest.angles, [float(ord(name[-1])) for name in NAMES])
    np.testing.assert_array_equal(joints.newest.speeds, -joints.newest.angles)


@pytest.mark.parametrize(
    ("names", "positions", "speeds", "words"),
    [
        (NAMES[1:], np.zeros(6), np.zeros(6), "joint states on /joint_states name"),
        ([], np.zeros(0), np.zeros(0), "must include ['fr3_joint1', 'fr3_joint2'"),
        (NAMES, np.zeros(6), np.zeros(7), "have 6 positions and 7 velocities for 7 names, must have one each"),
        (NAMES, np.zeros(7), np.zeros(3), "have 7 positions and 3 velocities for 7 names, must have one each"),
        (NAMES, np.full(7, np.nan), np.zeros(7), "must be finite"),
        (NAMES, np.full(7, np.inf), np.zeros(7), "must be finite"),
    ],
)
def test_joint_states_that_do_not_fit_are_refused_and_change_nothing(names, positions, speeds, words: str) -> None:
    joints = reader()
    assert words in str(joints.take(names, positions, speeds, 1, 1))
    assert joints.newest is None


def test_an_old_message_sent_again_is_not_fresh() -> None:
    joints = reader()
    assert take(joints, stamp_ns=5, now_ns=10) is None
    refusal = take(joints, stamp_ns=5, now_ns=20)
    assert refusal is not None
    assert refusal.kind is FaultKind.INPUT_INVALID
    assert "stamp on /joint_states does not advance" in refusal.text
    assert joints.newest is not None
    assert joints.newest.arrived_ns == 10
    assert take(joints, stamp_ns=4, now_ns=30) is None  # a clock that was set back is the driver's business


def test_unset_stamps_are_taken_as_they_come() -> None:
    joints = reader()
    assert take(joints, stamp_ns=0, now_ns=10) is None
    assert take(joints, stamp_ns=0, now_ns=20) is None


@pytest.mark.parametrize("sent", [np.zeros(0), np.full(7, np.nan)])
def test_speeds_that_a_driver_does_not_send_are_differences(sent: np.ndarray) -> None:
    joints = reader()
    for tick in range(30):
        angles = HOME + 0.01 * tick
        assert joints.take(NAMES, angles, sent, 1 + tick * 10 * MS, tick * 11 * MS) is None
    assert joints.newest is not None
    np.testing.assert_allclose(joints.newest.speeds, 1.0, atol=1e-6)


def test_two_messages_without_stamps_that_waited_in_a_queue_are_no_leap() -> None:
    """At 500 Hz, rad/s 1: the second of each pair is taken 60 us after the first, the first 4 ms after the last."""
    joints = reader()
    for tick in range(60):
        arrived_ns = (tick // 2) * 4 * MS + (tick % 2) * 60_000
        assert joints.take(NAMES, HOME + 0.002 * tick, np.zeros(0), 0, arrived_ns) is None
        if tick > 20:
            assert joints.newest is not None
            assert np.abs(joints.newest.speeds - 1.0).max() < 0.55
    assert joints.newest is not None
    np.testing.assert_array_equal(joints.newest.angles, HOME + 0.002 * 59)


def test_angles_that_another_publisher_sends_are_no_motion_of_the_arm() -> None:
    joints = reader(limits=LIMITS)
    assert take(joints, stamp_ns=10 * MS, now_ns=10 * MS) is None
    refusal = take(joints, np.zeros(7), stamp_ns=12 * MS, now_ns=12 * MS)
    assert refusal is not None
    assert refusal.kind is FaultKind.SECOND_SENDER
    assert "fr3_joint4 in joint states on /joint_states jumps by 2.36 rad within 2 ms" in refusal.text
    old = take(joints, np.zeros(7), stamp_ns=5 * MS, now_ns=14 * MS)  # of a bag: its stamps are older
    assert old is not None
    assert old.kind is FaultKind.SECOND_SENDER
    assert take(joints, HOME, stamp_ns=16 * MS, now_ns=16 * MS) is None
    assert joints.newest is not None
    np.testing.assert_array_equal(joints.newest.angles, HOME)


def test_an_arm_may_stand_elsewhere_after_its_driver_was_silent_for_a_second() -> None:
    joints = reader(limits=LIMITS)
    assert take(joints, stamp_ns=1, now_ns=1) is None
    assert take(joints, np.zeros(7), stamp_ns=2, now_ns=1002 * MS) is None


def test_a_joint_without_an_end_may_be_told_a_turn_apart() -> None:
    limits = replace(LIMITS, lower=np.full(7, -12.566), upper=np.full(7, 12.566))
    joints = reader(limits=limits)
    assert take(joints, stamp_ns=MS, now_ns=MS) is None
    assert take(joints, HOME + 2 * np.pi, stamp_ns=2 * MS, now_ns=2 * MS) is None


def test_speeds_of_a_joint_without_an_end_do_not_leap_where_its_angle_does() -> None:
    gen3 = limits_of("kinova_gen3")
    joints = reader(limits=gen3)
    arm = WrappingArm(chain_of("kinova_gen3"), gen3.home - 0.1)
    for tick in range(40):
        assert joints.take(NAMES, arm.told, np.zeros(0), 1 + tick * 10 * MS, tick * 10 * MS) is None
        arm.move(np.full(7, 0.5), 0.01)
        assert joints.newest is not None
        assert np.abs(joints.newest.speeds).max() < 0.51
    np.testing.assert_allclose(joints.newest.speeds, 0.5, atol=1e-6)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=20), st.lists(st.integers(0, 30), min_size=20, max_size=20))
def test_an_arm_at_its_highest_speed_never_jumps(steps_ms: list[int], delays_ms: list[int]) -> None:
    """Whatever is lost and however late it arrives."""
    joints, now_ns, stamp_ns = reader(limits=LIMITS), 0, MS
    assert take(joints, stamp_ns=stamp_ns, now_ns=MS) is None
    for step_ms, delay_ms in zip(steps_ms, delays_ms, strict=False):
        stamp_ns += step_ms * MS
        now_ns = max(now_ns + 1, stamp_ns + delay_ms * MS)
        angles = HOME + LIMITS.speed * stamp_ns / 1e9
        assert take(joints, angles, stamp_ns=stamp_ns, now_ns=now_ns) is None


def test_a_pose_that_another_publisher_sends_is_no_motion_of_the_arm() -> None:
    arm, pose = sense(pose_topic="/pose"), CHAIN.pose(HOME)
    assert arm.take_pose(pose, "base", MS, MS) is None
    for way, turn in (([0.1, 0, 0], 0.0), ([0, 0, 0], 0.5)):
        other = pose @ Pose.from_rotation(np.array(way), Rotation.from_euler("z", turn))
        refusal = arm.take_pose(other, "base", 2 * MS, 2 * MS)
        assert refusal is not None
        assert refusal.kind is FaultKind.SECOND_SENDER
        assert "the TCP in poses on /pose jumps by" in refusal.text
    take(arm.joints)
    state = arm.state()
    assert state is not None
    np.testing.assert_array_equal(state.T_base_tcp.position_m, pose.position_m)


def sense(*, pose_topic: str = "", frames: Frames = FRAMES, chain=CHAIN) -> ArmSense:
    arm = ArmSense("fr3", frames, reader(), HARD, pose_topic=pose_topic)
    arm.chain = chain
    return arm


def test_there_is_no_state_before_all_of_its_parts() -> None:
    assert sense().state() is None
    without_kinematics = sense(chain=None)
    take(without_kinematics.joints)
    assert without_kinematics.state() is None
    without_pose = sense(pose_topic="/pose")
    take(without_pose.joints)
    assert without_pose.state() is None


def test_pose_and_twist_are_computed_in_the_tool_frame() -> None:
    arm, speeds = sense(), np.array([0.1, -0.2, 0.3, 0.1, 0.0, 0.2, -0.1])
    take(arm.joints, HOME, speeds, now_ns=7)
    state = arm.state()
    assert state is not None
    before, after = CHAIN.pose(HOME - speeds * 1e-5), CHAIN.pose(HOME + speeds * 1e-5)
    np.testing.assert_allclose(state.twist, twist_between(before, after, 2e-5), atol=1e-4)
    assert state.stamp_ns == 7
    assert (state.wrench == 0).all()


def test_a_state_is_as_old_as_its_oldest_part() -> None:
    arm = sense(pose_topic="/pose")
    arm.take_pose(CHAIN.pose(HOME), "base", 1, 5 * MS)
    take(arm.joints, stamp_ns=1, now_ns=9 * MS)
    state = arm.state()
    assert state is not None
    assert state.stamp_ns == 5 * MS


def test_the_twist_of_a_published_pose_is_its_change() -> None:
    arm, twist = sense(pose_topic="/pose"), np.array([0.05, 0, 0, 0, 0, 0.2])
    take(arm.joints)
    pose = CHAIN.pose(HOME)
    for tick in range(20):
        arm.take_pose(pose, "base", 1 + tick * 10 * MS, tick * 10 * MS)
        pose = pose @ Pose.from_rotation(twist[:3] * 0.01, Rotation.from_rotvec(twist[3:] * 0.01))
    state = arm.state()
    assert state is not None
    np.testing.assert_allclose(state.twist, twist, atol=1e-3)


@pytest.mark.parametrize("late_ms", [5.5, 8.0, 9.9, 9.9999, 10.0])
def test_a_pose_without_a_stamp_that_comes_late_is_no_faster_motion(late_ms: float) -> None:
    arm, pose = sense(pose_topic="/pose"), CHAIN.pose(HOME)
    take(arm.joints)
    speeds = []
    for tick in range(60):
        late_ns = round(late_ms * MS) if tick == 50 else 0
        assert arm.take_pose(pose, "base", 0, (1 + tick) * 10 * MS + late_ns) is None
        pose = pose @ Pose.from_rotation(np.array([0.001, 0.0, 0.0]), Rotation.identity())
        state = arm.state()
        assert state is not None
        speeds.append(float(state.twist[0]))
    assert max(speeds) < 0.101
    assert min(speeds[45:]) > 0.07
    assert speeds[-1] == pytest.approx(0.1, abs=1e-3)


def test_a_pose_in_another_frame_is_refused_with_both_frames() -> None:
    arm = sense(pose_topic="/pose")
    refusal = arm.take_pose(CHAIN.pose(HOME), "world", 1, 1)
    assert refusal is not None
    assert refusal.kind is FaultKind.CONTRADICTION
    assert "pose on /pose is in frame 'world', must be in 'base'" in refusal.text
    assert "frame ''" in str(arm.take_pose(CHAIN.pose(HOME), "", 1, 1))


def test_a_published_pose_and_the_kinematics_must_agree() -> None:
    arm = sense(pose_topic="/pose")
    take(arm.joints)
    arm.take_pose(CHAIN.pose(HOME), "base", 1, 1)
    assert arm.disagreement() is None
    off = Pose.from_rotation(CHAIN.pose(HOME).position_m + np.array([0, 0, 0.03]), CHAIN.pose(HOME).rotation)
    arm.take_pose(off, "base", 10 * MS, 10 * MS)
    disagreement = arm.disagreement()
    assert disagreement is not None
    assert disagreement.kind is FaultKind.CONTRADICTION
    assert "pose on /pose and the kinematics of the robot file are apart" in disagreement.text


def wrench_of(arm: ArmSense) -> np.ndarray:
    state = arm.state()
    assert state is not None
    return state.wrench


def test_a_wrench_is_turned_into_the_tool_frame() -> None:
    force = np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    arm = sense()
    take(arm.joints)
    assert arm.take_wrench(force, "base", "/w", 1) is None
    np.testing.assert_allclose(wrench_of(arm), rotate_twist(force, CHAIN.pose(HOME).matrix.T))
    direct = sense(frames=Frames(base="base", tcp="tcp", wrench="tcp"))
    take(direct.joints)
    direct.take_wrench(force, "tcp", "/w", 1)
    np.testing.assert_array_equal(wrench_of(direct), force)


def test_a_wrench_that_the_tool_exerts_is_turned_into_what_acts_on_it() -> None:
    arm = sense(frames=build_frames(robot("fr3_franka")))
    take(arm.joints)
    pressing_down = np.array([0.0, 0, 25, 0, 0, 0])  # on a table, as libfranka says it: z of the tool points down
    assert arm.take_wrench(pressing_down, "fr3_hand_tcp", "/w", 1) is None
    np.testing.assert_array_equal(wrench_of(arm), -pressing_down)
    push = np.array([0.0, 0, 0.05])
    softened = soften_push(push, wrench_of(arm)[:3], 15.0, 35.0)
    assert softened[2] < 0.03
    np.testing.assert_array_equal(soften_push(-push, wrench_of(arm)[:3], 15.0, 35.0), -push)


def test_a_wrench_that_is_sent_again_is_not_fresh() -> None:
    arm = sense()
    take(arm.joints)
    assert arm.take_wrench(np.ones(6), "base", "/w", 7) is None
    refusal = arm.take_wrench(np.zeros(6), "base", "/w", 7)
    assert refusal is not None
    assert "stamp on /w does not advance" in refusal.text
    assert arm.take_wrench(np.zeros(6), "base", "/w", 0) is None


def test_a_wrench_at_the_flange_is_moved_to_the_tcp_with_its_lever() -> None:
    tcp = Pose.from_rotation(np.array([0.0, 0.0, 0.1]), Rotation.from_euler("z", np.pi / 2))
    arm = sense(frames=Frames(base="base", tcp="tcp", wrench="flange", tcp_in_wrench=tcp))
    take(arm.joints)
    arm.take_wrench(np.array([10.0, 0, 0, 0, 0, 0]), "flange", "/w", 1)
    np.testing.assert_allclose(wrench_of(arm), [0, -10, 0, -1, 0, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("wrench", "frame", "words"),
    [
        (np.zeros(6), "tool0", "wrench on /w is in frame 'tool0', must be in 'base'"),
        (np.full(6, np.nan), "base", "wrench on /w is [nan"),
        (np.zeros(6), "base", "no pose of the TCP has come to turn it by"),
    ],
)
def test_a_wrench_that_does_not_fit_is_refused(wrench: np.ndarray, frame: str, words: str) -> None:
    assert words in str(sense().take_wrench(wrench, frame, "/w", 1))


@pytest.mark.parametrize(("position", "opening"), [(0.0, 0.0), (0.02, 0.5), (0.04, 1.0), (0.05, 1.0), (-0.01, 0.0)])
def test_an_opening_is_the_share_between_the_joints_two_ends(position: float, opening: float) -> None:
    gripper = reader(["finger"])
    arm = ArmSense("fr3", FRAMES, reader(), HARD, gripper=gripper)
    arm.chain = CHAIN
    arm.set_gripper_ends(0.0, 0.04)
    take(arm.joints)
    take(gripper, [position], names=["finger"])
    state = arm.state()
    assert state is not None
    assert state.gripper == pytest.approx(opening)


def test_a_gripper_whose_joint_grows_when_it_closes_is_read_the_right_way_round() -> None:
    gripper = reader(["knuckle"])
    arm = ArmSense("ur5e", FRAMES, reader(), HARD, gripper=gripper)
    arm.chain = CHAIN
    arm.set_gripper_ends(0.8, 0.0)
    take(arm.joints)
    take(gripper, [0.8], names=["knuckle"])
    state = arm.state()
    assert state is not None
    assert state.gripper == 0.0


def test_no_time_between_two_poses_gives_no_twist() -> None:
    with pytest.raises(SpecError, match="must be above 0"):
        twist_between(Pose.identity(), Pose.identity(), 0.0)
