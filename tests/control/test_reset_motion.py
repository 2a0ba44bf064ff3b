"""The way to the start: up, across, down, past the real safety filter."""

from __future__ import annotations

import numpy as np
import pytest
from filter_rig import DOWN, Rig
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.replay_checker import check_log
from robot_stack.control.reset import ARRIVED_M, ARRIVED_RAD, OVER_M, Leg, ResetMotion, ResetSettings, random_start
from robot_stack.types.pose import Pose

SETTINGS = ResetSettings(clearance_m=0.05, speed_m_s=0.1, rotation_speed_rad_s=0.5)


def goal_at(x: float, y: float, z: float, yaw: float = 0.0) -> Pose:
    return Pose.from_rotation(np.array([x, y, z]), Rotation.from_euler("z", yaw) * DOWN)


def drive(rig: Rig, goal: Pose, seconds: float = 30.0, settings: ResetSettings = SETTINGS) -> list[Pose] | None:
    """Ticks until the goal is reached; every pose on the way, or None if it never was."""
    motion = ResetMotion(goal, settings)
    rig.armed()
    way = []
    for _ in range(round(seconds * 100)):
        wanted = motion.twist(rig.state())
        if wanted is None:
            return way
        rig.policy = wanted
        rig.tick()
        way.append(rig.pose)
    return None


@settings(max_examples=10, deadline=None)
@given(
    st.floats(-0.15, 0.15), st.floats(-0.15, 0.15), st.floats(0.05, 0.2), st.floats(-1.5, 1.5),
)  # fmt: skip
def test_any_goal_in_the_box_is_reached_and_nothing_unsafe_was_done(x, y, z, yaw) -> None:
    rig = Rig()
    goal = goal_at(x, y, z, yaw)
    assert drive(rig, goal) is not None
    assert np.linalg.norm(rig.pose.position_m - goal.position_m) < ARRIVED_M
    assert (rig.pose.rotation * goal.rotation.inv()).magnitude() < ARRIVED_RAD
    assert check_log(rig.log, rig.limits) == []


def test_the_arm_is_above_both_ends_while_it_moves_sideways() -> None:
    rig = Rig()
    start_m = rig.pose.position_m
    way = drive(rig, goal_at(0.12, -0.1, 0.15))
    assert way is not None
    for pose in way:
        beside = min(np.linalg.norm((pose.position_m - end)[:2]) for end in (start_m, np.array([0.12, -0.1, 0.15])))
        if beside > 2 * OVER_M:
            assert pose.position_m[2] > 0.15 + SETTINGS.clearance_m - 2 * OVER_M


def test_a_goal_right_below_needs_no_rise() -> None:
    way = drive(Rig(), goal_at(0.0, 0.0, 0.1))
    assert way is not None
    assert max(pose.position_m[2] for pose in way) < 0.151


def test_the_wish_is_never_faster_than_asked() -> None:
    rig = Rig()
    motion = ResetMotion(goal_at(0.15, 0.15, 0.05, 2.0), SETTINGS)
    rig.armed()
    for _ in range(500):
        wanted = motion.twist(rig.state())
        if wanted is None:
            break
        assert np.linalg.norm(wanted[:3]) <= SETTINGS.speed_m_s + 1e-9
        assert np.linalg.norm(wanted[3:]) <= SETTINGS.rotation_speed_rad_s + 1e-9
        rig.policy = wanted
        rig.tick()
    assert motion.leg is Leg.DESCEND


def test_a_goal_outside_the_box_is_never_reached_and_the_box_is_never_left() -> None:
    rig = Rig()
    assert drive(rig, goal_at(0.35, 0.0, 0.1), seconds=6.0) is None
    assert rig.pose.position_m[0] <= 0.2 + 1e-6
    assert check_log(rig.log, rig.limits) == []


@given(st.integers(0, 2**31), st.floats(0, 0.3), st.floats(0, 2))
def test_a_random_start_is_within_its_range_and_belongs_to_its_seed(seed, width, yaw_rad) -> None:
    goal = goal_at(0.0, 0.1, 0.2, 0.3)
    drawn = random_start(goal, np.random.default_rng(seed), np.full(3, width), yaw_rad)
    again = random_start(goal, np.random.default_rng(seed), np.full(3, width), yaw_rad)
    assert np.array_equal(drawn.position_m, again.position_m)
    assert (np.abs(drawn.position_m - goal.position_m) <= width / 2).all()
    turn = (drawn.rotation * goal.rotation.inv()).as_rotvec()
    assert np.abs(turn[:2]).max() < 1e-9
    assert abs(turn[2]) <= yaw_rad / 2 + 1e-9


def test_no_range_is_the_taught_pose_itself() -> None:
    goal = goal_at(0.0, 0.1, 0.2)
    drawn = random_start(goal, np.random.default_rng(0), np.zeros(3), 0.0)
    assert drawn.position_m == pytest.approx(goal.position_m)
