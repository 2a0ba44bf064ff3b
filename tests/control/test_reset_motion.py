"""The way to the start: up, across, down, past the real safety filter; and straight in the joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.control.reset import (
    ARRIVED_M,
    ARRIVED_RAD,
    OVER_M,
    Chained,
    JointResetMotion,
    Leg,
    Motion,
    ResetMotion,
    ResetSettings,
    random_start,
)
from robot_stack.control.safety.tool_turns import TurnCounter
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from tests.control.filter_rig import DOWN, LIMITS, Rig
from tests.control.fr3_chain import HOME, chain_of, limits_of, robot
from tests.control.wrapping_arm import WrappingArm
from tests.examples import examples

pytestmark = pytest.mark.long

SETTINGS = ResetSettings(clearance_m=0.05, speed_m_s=0.1, rotation_speed_rad_s=0.5)
STRAIGHT = ResetSettings(clearance_m=0.0, speed_m_s=0.1, rotation_speed_rad_s=0.5)
FR3 = chain_of("fr3_franka")
UNCOUNTED = TurnCounter(None)
"""Where turns are not limited nobody asks for them."""
WIDE = replace(LIMITS, box_min_m=(-1.0, -1.0, -1.0), box_max_m=(1.0, 1.0, 1.0))


def goal_at(x: float, y: float, z: float, yaw: float = 0.0) -> Pose:
    return Pose.from_rotation(np.array([x, y, z]), Rotation.from_euler("z", yaw) * DOWN)


def drive(rig: Rig, goal: Pose, seconds: float = 30.0, settings: ResetSettings = SETTINGS) -> list[Pose] | None:
    """Ticks until the goal is reached; every pose on the way, or None if it never was."""
    turns = TurnCounter(rig.limits.yaw_zero_xyzw)
    motion = ResetMotion(goal, settings, rig.limits, turns)
    rig.armed()
    way = []
    for _ in range(round(seconds * 100)):
        turns.watch(rig.pose.quaternion_xyzw)
        wanted = motion.twist(rig.state())
        if wanted is None:
            return way
        rig.policy = wanted
        rig.tick()
        way.append(rig.pose)
    return None


@settings(max_examples=examples(10), deadline=None)
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


@pytest.mark.parametrize("leg", [Leg.CROSS, Leg.DESCEND])
def test_an_arm_that_an_operator_has_set_down_beside_rises_again(leg: Leg) -> None:
    rig, goal = Rig(), goal_at(0.12, -0.1, 0.04)
    motion = ResetMotion(goal, SETTINGS, rig.limits, UNCOUNTED)

    def follow() -> bool:
        wanted = motion.twist(rig.state())
        if wanted is not None:
            rig.move(wanted)
        return wanted is not None

    while motion.leg is not leg:
        assert follow()
    for _ in range(20):
        assert follow()
    aside_m = rig.pose.position_m + np.array([-0.1, 0.1, 0.0])
    aside_m[2] = 0.03
    rig.pose = Pose.from_rotation(aside_m, DOWN)
    for _ in range(3000):
        position_m = rig.pose.position_m
        beside = min(np.linalg.norm((position_m - end)[:2]) for end in (aside_m, goal.position_m))
        assert beside < 2 * OVER_M or position_m[2] > 0.04 + SETTINGS.clearance_m - 2 * OVER_M
        if not follow():
            break
    assert np.linalg.norm(rig.pose.position_m - goal.position_m) < ARRIVED_M


def test_a_goal_right_below_needs_no_rise() -> None:
    way = drive(Rig(), goal_at(0.0, 0.0, 0.1))
    assert way is not None
    assert max(pose.position_m[2] for pose in way) < 0.151


def test_the_wish_is_never_faster_than_asked() -> None:
    rig = Rig()
    motion = ResetMotion(goal_at(0.15, 0.15, 0.05, 2.0), SETTINGS, rig.limits, UNCOUNTED)
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
    drawn = random_start(goal, np.random.default_rng(seed), np.full(3, width), yaw_rad, WIDE)
    again = random_start(goal, np.random.default_rng(seed), np.full(3, width), yaw_rad, WIDE)
    assert np.array_equal(drawn.position_m, again.position_m)
    assert (np.abs(drawn.position_m - goal.position_m) <= width / 2).all()
    turn = (drawn.rotation * goal.rotation.inv()).as_rotvec()
    assert np.abs(turn[:2]).max() < 1e-9
    assert abs(turn[2]) <= yaw_rad / 2 + 1e-9


def test_under_the_ceiling_of_the_box_it_rises_by_what_is_left_and_arrives() -> None:
    rig, goal = Rig(), goal_at(0.1, 0.0, 0.05)
    rig.pose = Pose.from_rotation(np.array([0.0, 0.0, 0.28]), DOWN)
    assert drive(rig, goal) is not None
    rig = Rig()
    assert drive(rig, goal_at(0.1, 0.0, 0.28)) is not None


@pytest.mark.parametrize(
    "outside_m",
    [
        (-0.203, 0.0, 0.15),
        (0.0, 0.203, 0.15),
        (0.5, 0.0, 0.15),
        (-0.3, -0.25, 0.05),
        (0.25, 0.0, 0.35),
        (0.0, -0.3, -0.02),
    ],
)
def test_an_arm_that_stands_beside_its_box_comes_straight_in_before_it_rises(outside_m: tuple[float, ...]) -> None:
    """Parked there, or guided there by hand: outside only motion back in passes, and a rise is none."""
    rig, goal = Rig(), goal_at(0.1, 0.0, 0.05)
    rig.pose = Pose.from_rotation(np.array(outside_m), DOWN)
    way = drive(rig, goal)
    assert way is not None
    assert np.linalg.norm(rig.pose.position_m - goal.position_m) < ARRIVED_M
    assert check_log(rig.log, rig.limits) == []
    beside = [pose for pose in way if np.abs(pose.position_m[:2]).max() > 0.2]
    level_m = np.clip(outside_m[2], 0.0, 0.3)
    low_m, high_m = min(level_m, outside_m[2]) - OVER_M, max(level_m, outside_m[2]) + OVER_M
    assert all(low_m < pose.position_m[2] < high_m for pose in beside)


def test_an_arm_that_is_pushed_out_on_its_way_comes_in_again() -> None:
    rig, goal = Rig(), goal_at(0.1, 0.0, 0.05)
    motion = ResetMotion(goal, SETTINGS, rig.limits, UNCOUNTED)
    while motion.leg is not Leg.DESCEND:
        rig.move(motion.twist(rig.state()))
    rig.pose = Pose.from_rotation(np.array([0.1, 0.23, 0.1]), DOWN)
    while rig.pose.position_m[1] > 0.2:
        rig.move(motion.twist(rig.state()))
        assert rig.pose.position_m == pytest.approx([0.1, rig.pose.position_m[1], 0.1], abs=1e-6)
    while (wanted := motion.twist(rig.state())) is not None:
        rig.move(wanted)
    assert np.linalg.norm(rig.pose.position_m - goal.position_m) < ARRIVED_M


@pytest.mark.parametrize(("turned_rad", "goal_rad"), [(3.0, 0.0), (3.0, -0.5), (-2.9, 0.9), (3.3, 0.0), (-1.0, 1.5)])
def test_a_start_is_reached_by_the_longer_turn_where_the_shorter_ends_beyond_the_range(turned_rad, goal_rad) -> None:
    zero_xyzw = tuple(DOWN.as_quat().tolist())
    rig = Rig(replace(LIMITS, yaw_range_rad=3.5, yaw_zero_xyzw=zero_xyzw))
    turns = TurnCounter(zero_xyzw)
    for share in np.linspace(0.0, 1.0, 10):
        rig.pose = Pose.from_rotation(rig.pose.position_m, DOWN * Rotation.from_euler("z", share * turned_rad))
        rig.tick()
        turns.watch(rig.pose.quaternion_xyzw)
    goal = Pose.from_rotation(rig.pose.position_m, DOWN * Rotation.from_euler("z", goal_rad))
    motion = ResetMotion(goal, SETTINGS, rig.limits, turns)
    rig.armed()
    for _ in range(1500):
        wanted = motion.twist(rig.state())
        if wanted is None:
            break
        rig.policy = wanted
        rig.tick()
        turns.watch(rig.pose.quaternion_xyzw)
    assert turns.turn_rad == pytest.approx(goal_rad, abs=ARRIVED_RAD)
    assert (rig.pose.rotation * goal.rotation.inv()).magnitude() < ARRIVED_RAD


@given(st.integers(0, 2**31))
def test_a_random_start_is_within_the_box(seed: int) -> None:
    drawn = random_start(goal_at(0.19, 0.0, 0.01), np.random.default_rng(seed), np.full(3, 0.1), 0.0, LIMITS)
    assert (drawn.position_m >= LIMITS.box_min_m).all()
    assert (drawn.position_m <= LIMITS.box_max_m).all()


def test_no_range_is_the_taught_pose_itself() -> None:
    goal = goal_at(0.0, 0.1, 0.2)
    drawn = random_start(goal, np.random.default_rng(0), np.zeros(3), 0.0, WIDE)
    assert drawn.position_m == pytest.approx(goal.position_m)


def joint_way(name: str, start_rad: np.ndarray, goal_rad: np.ndarray, *, motions: list[Motion] | None = None):
    """Angles on the way of an arm whose driver solves for its joints, at 20 Hz; None if it never arrives."""
    chain, solver = chain_of(name), JointMotionSolver(chain_of(name), limits_of(name))
    motion = Chained([JointResetMotion(goal_rad, chain, limits_of(name), SETTINGS, WIDE), *(motions or [])])
    angles, way = start_rad.copy(), [start_rad.copy()]
    for _ in range(2000):
        state = RobotState(
            arm="arm",
            stamp_ns=0,
            T_base_tcp=chain.pose(angles),
            twist=np.zeros(6),
            wrench=np.zeros(6),
            joints_rad=angles,
            joint_speeds_rad_s=np.zeros(len(angles)),
            gripper=0.0,
        )
        wanted = motion.twist(state)
        if wanted is None:
            return np.array(way)
        assert np.linalg.norm(wanted[:3]) <= SETTINGS.speed_m_s + 1e-9
        assert np.linalg.norm(wanted[3:]) <= SETTINGS.rotation_speed_rad_s + 1e-9
        angles = angles + 0.05 * solver.solve(angles, wanted).speeds
        way.append(angles)
    return None


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.floats(-0.4, 0.4), min_size=6, max_size=6).map(np.array))
def test_six_joints_go_back_along_their_line(off: np.ndarray) -> None:
    goal = np.array(robot("ur5e").home_rad)
    way = joint_way("ur5e", goal + off, goal)
    assert way is not None
    assert np.abs(way[-1] - goal).max() < 0.05
    length = np.linalg.norm(off)
    if length > 0.1:
        line = off / length
        aside = (way - goal) - np.outer((way - goal) @ line, line)
        assert np.abs(aside).max() < 0.02 * length + 0.01


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.floats(-0.3, 0.3), min_size=7, max_size=7).map(np.array))
def test_seven_joints_bring_the_hand_there_and_the_elbow_stays_near(off: np.ndarray) -> None:
    taught = FR3.pose(HOME)
    way = joint_way("fr3_franka", HOME + off, HOME, motions=[ResetMotion(taught, STRAIGHT, WIDE, UNCOUNTED)])
    assert way is not None
    end = FR3.pose(way[-1]).relative_to(taught)
    assert np.linalg.norm(end.position_m) < ARRIVED_M
    assert end.rotation.magnitude() < ARRIVED_RAD
    assert np.abs(way[-1] - HOME).max() < 0.35


def test_a_hand_that_hangs_turned_over_comes_back() -> None:
    off = np.array([0.8, -0.5, 0.4, 0.6, 1.8, -0.9])
    goal = np.array(robot("ur5e").home_rad)
    way = joint_way("ur5e", goal + off, goal)
    assert way is not None
    assert np.abs(way[-1] - goal).max() < 0.05
    limits = limits_of("ur5e")
    assert (way > limits.lower).all()
    assert (way < limits.upper).all()


def test_joints_that_turn_without_end_go_to_their_start_the_short_way() -> None:
    """Home of the Gen3 lies on the seam of its third joint, at half a turn: whole turns took the TCP 1 m off."""
    chain, limits = chain_of("kinova_gen3"), limits_of("kinova_gen3")
    goal, solver = limits.home, JointMotionSolver(chain, limits)
    arm = WrappingArm(chain, goal + np.array([0.1, 0, 0.01, 0, 0, 0, 0]))
    motion, most_m = JointResetMotion(goal, chain, limits, SETTINGS, WIDE), 0.0
    for _ in range(500):
        wanted = motion.twist(arm.state())
        if wanted is None:
            break
        arm.move(solver.solve(arm.told, wanted).speeds, 0.01)
        most_m = max(most_m, float(np.linalg.norm(arm.pose().position_m - chain.pose(goal).position_m)))
    assert wanted is None
    assert most_m < 0.07
    assert np.abs(arm.angles - goal).max() < 0.05


def test_a_chain_of_motions_is_done_when_its_last_is_and_an_empty_one_at_once() -> None:
    rig = Rig()
    here = rig.state()
    assert Chained([]).twist(here) is None
    away = ResetMotion(goal_at(0.1, 0.0, 0.15), SETTINGS, rig.limits, UNCOUNTED)
    chained = Chained([ResetMotion(rig.pose, STRAIGHT, rig.limits, UNCOUNTED), away])
    assert chained.twist(here) == pytest.approx(away.twist(here))


def test_an_arm_that_somebody_moves_away_again_has_not_arrived() -> None:
    rig = Rig()
    way = Chained([ResetMotion(rig.pose, STRAIGHT, rig.limits, UNCOUNTED)])
    assert way.twist(rig.state()) is None
    moved = replace(rig.state(), T_base_tcp=goal_at(0.1, 0.0, 0.15))
    assert way.twist(moved) is not None
