"""What each driver is told: finite, bounded, at rest when it must be, and what its own words mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.franka import FrankaStatus
from robot_stack.control.drivers.joint_trajectory import (
    REST_S,
    STOP_S,
    ForwardVelocityCore,
    JointTarget,
    JointTrajectoryCore,
)
from robot_stack.control.drivers.pose_target import PoseTarget, PoseTargetCore
from robot_stack.control.drivers.servo import HUMBLE, JAZZY, ServoCore, ServoStatus
from robot_stack.control.drivers.ur import UrStatus
from robot_stack.control.kinematics.joint_motion import JointLimits, JointMotionSolver
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import FaultKind
from tests.control.fr3_chain import HOME, chain_of, limits_of
from tests.control.wrapping_arm import WrappingArm
from tests.examples import examples

CHAIN, LIMITS = chain_of("fr3_franka"), limits_of("fr3_franka")
SOLVER = JointMotionSolver(CHAIN, LIMITS)
DT_S = 0.01
LEAD_RAD = 0.1
SLOW = np.array([0.05, 0.0, 0.0, 0.0, 0.0, 0.0])
twists = st.lists(st.floats(-2, 2), min_size=6, max_size=6).map(np.array)


def command(twist=SLOW, *, live: bool = True, angles=HOME, share: float = 1.0) -> DriverCommand:
    pose = None if angles is None else CHAIN.pose(angles)
    return DriverCommand(
        twist=twist if live else np.zeros(6), live=live, pose=pose, angles=angles, dt_s=DT_S, speed_share=share
    )


def trajectory_core() -> JointTrajectoryCore:
    return JointTrajectoryCore(SOLVER, LIMITS, LEAD_RAD, 100.0)


# MoveIt Servo -------------------------------------------------------------------------------------------------------
def test_servo_takes_speeds_as_they_are_or_as_shares_of_its_scales() -> None:
    twist = np.array([0.1, 0, 0, 0, 0, -0.4])
    speed = ServoCore(unitless=False, linear_scale_m_s=0.4, rotational_scale_rad_s=0.8)
    share = ServoCore(unitless=True, linear_scale_m_s=0.4, rotational_scale_rad_s=0.8)
    assert np.array_equal(speed.step(command(twist)), twist)
    np.testing.assert_allclose(share.step(command(twist)), [0.25, 0, 0, 0, 0, -0.5])


@settings(deadline=None)
@given(twists)
def test_a_unitless_twist_is_within_one_and_keeps_its_direction(twist: np.ndarray) -> None:
    core = ServoCore(unitless=True, linear_scale_m_s=0.1, rotational_scale_rad_s=0.1)
    entries = core.step(command(twist))
    shares = twist / 0.1
    np.testing.assert_allclose(entries, shares / max(1.0, np.abs(shares).max()), atol=1e-12)


def test_servo_is_sent_zeros_when_the_arm_may_not_move() -> None:
    core = ServoCore(unitless=True, linear_scale_m_s=0.4, rotational_scale_rad_s=0.8)
    assert not core.step(command(live=False)).any()
    assert not core.step(command(live=False, angles=None)).any()


@pytest.mark.parametrize(("names", "code"), [(JAZZY, 5), (HUMBLE, 4)])
def test_a_halt_of_servo_is_a_fault_until_seen_and_again_when_it_comes_again(names, code: int) -> None:
    status = ServoStatus(names, "/servo_node/status")
    status.take(0)
    assert status.fault() is None
    status.take(code)
    assert str(status.fault()) == "MoveIt Servo says HALT_FOR_COLLISION on /servo_node/status; free the arm"
    status.acknowledge()
    status.take(code)
    assert status.fault() is None
    status.take(1)
    status.take(code)
    assert "HALT_FOR_COLLISION" in str(status.fault())


@pytest.mark.parametrize("code", [1, 3, 0])
def test_servo_slowing_down_is_no_fault(code: int) -> None:
    status = ServoStatus(JAZZY, "/s")
    status.take(code)
    assert status.fault() is None


def test_a_status_that_nobody_knows_is_a_fault() -> None:
    status = ServoStatus(JAZZY, "/s")
    status.take(99)
    assert "UNKNOWN (99)" in str(status.fault())


# Poses --------------------------------------------------------------------------------------------------------------
@settings(max_examples=examples(50), deadline=None)
@given(st.lists(twists, min_size=1, max_size=40))
def test_a_target_pose_never_runs_further_ahead_than_its_lead(path) -> None:
    target, measured = PoseTarget(0.02, 0.1), CHAIN.pose(HOME)
    for twist in path:  # the arm is blocked: it never moves
        pose = target.move(twist * 10.0, measured, 0.04)
        ahead = pose.relative_to(measured)
        assert np.linalg.norm(ahead.position_m) <= 0.02 + 1e-9
        assert ahead.rotation.magnitude() <= 0.1 + 1e-6


def test_a_target_pose_moves_in_the_tools_own_frame() -> None:
    turned = Pose.from_rotation(np.zeros(3), Rotation.from_euler("z", np.pi / 2))
    pose = PoseTarget(0.1, 0.5).move(np.array([1.0, 0, 0, 0, 0, 0]), turned, 0.05)
    np.testing.assert_allclose(pose.position_m, [0.0, 0.05, 0.0], atol=1e-12)


def test_a_target_pose_at_rest_stays_although_the_arm_sags_below_it() -> None:
    target, start = PoseTarget(0.02, 0.1), CHAIN.pose(HOME)
    target.move(np.zeros(6), start, DT_S)
    sagging = Pose.from_rotation(start.position_m - np.array([0, 0, 0.005]), start.rotation)
    for _ in range(100):
        pose = target.move(np.zeros(6), sagging, DT_S)
    np.testing.assert_allclose(pose.position_m, start.position_m, atol=1e-12)


def test_without_leave_to_move_the_pose_measured_then_is_sent_for_a_moment_and_nothing_after() -> None:
    core = PoseTargetCore(0.02, 0.1)
    for _ in range(10):
        core.step(command())
    sent = [core.step(command(live=False, angles=HOME + 0.001 * tick)) for tick in range(200)]
    kept = [pose for pose in sent if pose is not None]
    assert len(kept) == pytest.approx(REST_S / DT_S, abs=2)
    assert sent[-1] is None
    for pose in kept:
        np.testing.assert_allclose(pose.position_m, CHAIN.pose(HOME).position_m, atol=1e-9)


def test_a_target_pose_starts_where_the_arm_is_after_it_was_moved_by_hand() -> None:
    core = PoseTargetCore(0.02, 0.1)
    core.step(command())
    core.step(command(live=False))
    elsewhere = HOME + np.array([0.5, 0, 0, 0, 0, 0, 0])
    assert core.step(command(np.zeros(6), angles=elsewhere)) is None
    pose = core.step(command(SLOW, angles=elsewhere))
    assert pose is not None
    np.testing.assert_allclose(pose.position_m, CHAIN.pose(elsewhere).position_m, atol=1e-3)
    assert core.step(command(np.zeros(6), angles=elsewhere)) is not None


def test_no_pose_is_sent_before_the_arm_may_move() -> None:
    core = PoseTargetCore(0.02, 0.1)
    assert core.step(command(live=False)) is None
    assert core.step(command(live=False, angles=None)) is None


# Joint trajectories -------------------------------------------------------------------------------------------------
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(twists, st.booleans(), st.floats(0, 1)), min_size=1, max_size=25))
def test_every_trajectory_is_finite_rises_in_time_and_ends_at_rest_near_the_arm(path) -> None:
    core, measured = trajectory_core(), HOME.copy()
    for twist, live, share in path:  # the arm is blocked
        points = core.step(command(twist, live=live, angles=measured, share=share))
        if points is None:
            continue
        times = [0.0, *(point.at_s for point in points)]
        assert (np.diff(times) > 0).all()
        assert not points[-1].speeds.any()
        for point in points:
            assert np.isfinite(point.angles).all()
            assert np.isfinite(point.speeds).all()
            room = LEAD_RAD + LIMITS.speed * (0.02 + STOP_S)
            assert (np.abs(point.angles - measured) <= room + 1e-9).all()
            assert (point.angles >= LIMITS.lower - 1e-9).all()
            assert (point.angles <= LIMITS.upper + 1e-9).all()


def test_a_trajectory_points_where_the_twist_leads() -> None:
    core = trajectory_core()
    first, last = core.step(command()) or ()
    speeds = SOLVER.solve(HOME, SLOW).speeds
    np.testing.assert_allclose(first.speeds, speeds)
    np.testing.assert_allclose(first.angles, HOME + speeds * (DT_S + 0.02), atol=1e-12)
    np.testing.assert_allclose(last.angles, first.angles + speeds * STOP_S / 2, atol=1e-12)
    assert (first.at_s, last.at_s) == (0.02, 0.02 + STOP_S)


def test_without_leave_to_move_the_arm_is_told_to_stop_and_then_nothing() -> None:
    core = trajectory_core()
    for _ in range(5):
        moving = core.step(command())
    assert moving is not None
    sent = [core.step(command(live=False)) for _ in range(100)]
    stops = [points for points in sent if points is not None]
    assert len(stops) == pytest.approx(REST_S / DT_S, abs=2)
    assert all(len(points) == 1 and not points[0].speeds.any() for points in stops)
    places = np.array([points[0].angles for points in stops])
    assert np.ptp(places, axis=0).max() == 0.0
    assert sent[-1] is None


def test_a_blocked_arm_that_stands_is_told_to_stay_where_it_is() -> None:
    """It would spring to its target as soon as it is freed."""
    core = trajectory_core()
    for _ in range(200):
        core.step(command())
    for _ in range(200):
        core.step(command(np.zeros(6)))
    sent = [core.step(command(live=False)) for _ in range(100)]
    kept = [points for points in sent if points is not None]
    assert kept
    for (point,) in kept:
        np.testing.assert_array_equal(point.angles, HOME)


def test_a_driver_that_is_not_heard_gets_nothing_however_slowly_a_busy_machine_counts_time() -> None:
    core = trajectory_core()
    for _ in range(5):
        core.step(command())
    assert core.step(command(live=False)) is not None
    assert core.step(command(live=False, angles=None)) is None  # another may have taken its place by the next tick
    assert core.step(command(live=False)) is None


def test_an_arm_that_is_suddenly_elsewhere_is_not_pulled_back() -> None:
    elsewhere = HOME + np.array([0.5, 0, 0, 0, 0, 0, 0])
    core = trajectory_core()
    core.step(command())
    assert core.step(command(live=False)) is not None
    assert core.step(command(live=False, angles=elsewhere)) is None
    first, _ = core.step(command(angles=elsewhere)) or ()
    assert np.abs(first.angles - elsewhere).max() < 0.01
    poses = PoseTargetCore(0.02, 0.1)
    poses.step(command())
    poses.step(command(live=False))
    pose = poses.step(command(live=False, angles=elsewhere))
    assert pose is not None
    np.testing.assert_allclose(pose.position_m, CHAIN.pose(elsewhere).position_m)


def test_nothing_is_sent_to_a_trajectory_controller_before_the_first_motion_nor_long_after_the_last() -> None:
    core = trajectory_core()
    assert core.step(command(np.zeros(6))) is None
    core.step(command())
    quiet = [core.step(command(np.zeros(6))) for _ in range(100)]
    assert quiet[0] is not None
    assert quiet[-1] is None


def test_a_slowed_down_pendant_slows_the_target() -> None:
    (fast, _), (slow, _) = (trajectory_core().step(command(share=share)) or () for share in (1.0, 0.2))
    np.testing.assert_allclose(slow.speeds, 0.2 * fast.speeds, atol=1e-3)
    assert trajectory_core().step(command(share=0.0)) is None


def ranges(lower: list[float], upper: list[float]) -> JointLimits:
    return JointLimits(
        lower=np.array(lower), upper=np.array(upper), speed=np.ones(len(lower)), home=np.zeros(len(lower))
    )


def test_target_angles_outside_the_range_are_not_thrown_back_into_it() -> None:
    target = JointTarget(0.1, ranges([-1.0], [1.0]))
    outside = np.array([1.2])
    assert target.move(np.zeros(1), outside, DT_S)[0] == pytest.approx(1.2)
    assert target.move(np.array([5.0]), outside, 0.04)[0] == pytest.approx(1.2)


def test_a_joint_that_turns_without_end_is_not_unwound_when_its_angle_jumps() -> None:
    target = JointTarget(0.1, ranges([-12.0, -3.0], [12.0, 3.0]))
    target.move(np.array([0.5, 0.0]), np.array([np.pi - 0.01, 0.5]), 0.04)
    after = target.move(np.array([0.5, 0.0]), np.array([-np.pi + 0.005, 0.5]), 0.04)
    np.testing.assert_allclose(after, [np.pi - 0.01 + 0.04, 0.5])


def test_an_arm_that_crossed_the_seam_of_an_endless_joint_still_comes_to_rest() -> None:
    gen3, limits = chain_of("kinova_gen3"), limits_of("kinova_gen3")
    core = JointTrajectoryCore(JointMotionSolver(gen3, limits), limits, LEAD_RAD, 100.0)
    arm = WrappingArm(gen3, np.array([np.pi - 0.001, 0.3, 0.0, -2.0, 0.0, 0.9, 0.0]))

    def step(*, live: bool):
        twist = rotate_twist(0.2 * gen3.jacobian(arm.told)[1][:, 0], arm.pose().matrix.T) * live
        return core.step(DriverCommand(twist=twist, live=live, pose=arm.pose(), angles=arm.told, dt_s=DT_S))

    moved = step(live=True)
    assert moved is not None
    arm.angles = arm.angles + 2.0 * np.sign(moved[0].speeds) * 0.002
    assert arm.told[0] < 0.0 < arm.angles[0]
    rest = step(live=False)
    assert rest is not None
    assert rest[0].angles[0] == pytest.approx(arm.angles[0], abs=0.03)


# Joint speeds -------------------------------------------------------------------------------------------------------
def test_speeds_are_sent_always_and_zero_without_leave_to_move() -> None:
    core = ForwardVelocityCore(SOLVER, 7)
    np.testing.assert_allclose(core.step(command()), SOLVER.solve(HOME, SLOW).speeds)
    assert not core.step(command(live=False)).any()
    assert not core.step(command(live=False, angles=None)).any()
    assert not core.step(command(np.zeros(6))).any()


# Universal Robots ---------------------------------------------------------------------------------------------------
def ur() -> UrStatus:
    status = UrStatus("/running", "/safety_mode")
    status.take_safety_mode(1)
    return status


def test_a_program_that_never_ran_is_waited_for_and_one_that_stopped_is_a_fault() -> None:
    status = ur()
    status.take_program(False)
    assert "start External Control" in str(status.waiting())
    assert status.fault() is None
    status.take_program(True)
    assert (status.waiting(), status.fault()) == (None, None)
    status.take_program(False)
    assert "program has stopped" in str(status.fault())
    assert status.waiting() is None


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        *((mode, FaultKind.PROTECTIVE_STOP) for mode in (3, 4, 5, 8, 9, 12, 13)),
        (6, FaultKind.EMERGENCY_STOP),
        (7, FaultKind.EMERGENCY_STOP),
        *((mode, FaultKind.DRIVER_ERROR) for mode in (10, 11, 77)),
    ],
)
def test_anything_but_normal_and_reduced_is_a_fault_of_its_kind(mode: int, kind: FaultKind) -> None:
    status = ur()
    status.take_safety_mode(mode)
    fault = status.fault()
    assert fault is not None
    assert fault.kind is kind
    assert fault.text.startswith("UR says ")
    status.take_safety_mode(2)
    assert status.fault() is None


@pytest.mark.parametrize(("percent", "share"), [(100.0, 1.0), (20.0, 0.2), (0.0, 0.0), (130.0, 1.0)])
def test_the_pendants_slider_is_a_share_of_the_speed(percent: float, share: float) -> None:
    status = ur()
    assert status.take_speed_scaling(percent) is None
    assert status.speed_share == share


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1.0])
def test_a_slider_that_is_no_percentage_changes_nothing(percent: float) -> None:
    status = ur()
    assert "must be a percentage" in str(status.take_speed_scaling(percent))
    assert status.speed_share == 1.0


# Franka -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (4, FaultKind.DRIVER_ERROR),
        (5, FaultKind.EMERGENCY_STOP),
        (0, FaultKind.DRIVER_ERROR),
        (99, FaultKind.DRIVER_ERROR),
    ],
)
def test_a_franka_that_does_not_move_for_a_reason_is_a_fault_of_its_kind(mode: int, kind: FaultKind) -> None:
    status = FrankaStatus("/state")
    status.take(mode)
    fault = status.fault()
    assert fault is not None
    assert fault.kind is kind
    assert fault.text.startswith("Franka says ")


@pytest.mark.parametrize("mode", [1, 3, 6])
def test_a_franka_that_is_idle_or_led_by_hand_is_waited_for(mode: int) -> None:
    status = FrankaStatus("/state")
    status.take(mode)
    assert status.fault() is None
    assert "must be MOVE" in str(status.waiting())


def test_a_franka_that_moves_is_well() -> None:
    status = FrankaStatus("/state")
    status.take(2)
    assert (status.fault(), status.waiting()) == (None, None)
