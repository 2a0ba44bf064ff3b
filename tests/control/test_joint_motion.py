"""Differential inverse kinematics: the twist where it can be had, a bounded slow-down where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.kinematics.chain import Chain, ChainJoint, transform_of
from robot_stack.control.kinematics.joint_motion import JointLimits, JointMotionSolver
from robot_stack.types.pose import rotate_twist
from tests.control.fr3_chain import HOME, chain_of, limits_of, robot
from tests.control.wrapping_arm import WrappingArm
from tests.examples import examples

FR3, LIMITS = chain_of("fr3_franka"), limits_of("fr3_franka")
SOLVER = JointMotionSolver(FR3, LIMITS)
twists = st.lists(st.floats(-1, 1), min_size=6, max_size=6).map(np.array)
anywhere = st.lists(st.floats(0, 1), min_size=7, max_size=7).map(
    lambda share: LIMITS.lower + np.array(share) * (LIMITS.upper - LIMITS.lower)
)


def achieved(angles: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Twist of the TCP in its own frame."""
    pose, jacobian = FR3.jacobian(angles)
    return rotate_twist(jacobian @ speeds, pose.matrix.T)


@settings(deadline=None)
@given(twists)
def test_a_slow_twist_is_followed_exactly_in_the_tool_frame(twist: np.ndarray) -> None:
    wanted = twist * 0.1
    motion = SOLVER.solve(HOME, wanted)
    assert motion.share == 1.0
    np.testing.assert_allclose(achieved(HOME, motion.speeds), wanted, atol=1e-9)


@settings(max_examples=examples(150), deadline=None)
@given(anywhere, twists)
def test_speeds_are_finite_and_within_limits_everywhere(angles: np.ndarray, twist: np.ndarray) -> None:
    motion = SOLVER.solve(angles, twist)
    assert np.isfinite(motion.speeds).all()
    assert (np.abs(motion.speeds) <= LIMITS.speed * (1 + 1e-9)).all()
    after = angles + motion.speeds * 0.01
    assert (after >= LIMITS.lower - 1e-9).all()
    assert (after <= LIMITS.upper + 1e-9).all()


@settings(deadline=None)
@given(twists)
def test_a_twist_beyond_the_limits_keeps_its_direction(twist: np.ndarray) -> None:
    wanted = twist * 20.0
    motion = SOLVER.solve(HOME, wanted)
    if motion.share < 1.0:
        assert motion.held_by in FR3.names
        np.testing.assert_allclose(achieved(HOME, motion.speeds), motion.share * wanted, atol=1e-6)


def test_no_twist_moves_no_joint_not_even_the_elbow() -> None:
    motion = SOLVER.solve(HOME + 0.3, np.zeros(6))
    assert not motion.speeds.any()


def test_a_joint_at_its_end_stops_the_motion_into_it_and_not_the_way_back() -> None:
    angles = HOME.copy()
    angles[5] = LIMITS.upper[5]
    pose, jacobian = FR3.jacobian(angles)
    outward = rotate_twist(jacobian[:, 5], pose.matrix.T)
    stopped = SOLVER.solve(angles, outward * 0.1)
    assert stopped.share == 0.0
    assert stopped.held_by == FR3.names[5]
    back = SOLVER.solve(angles, -outward * 0.1)
    assert back.share > 0.0
    assert back.speeds[5] < 0.0


def test_while_the_tcp_moves_the_elbow_goes_home_without_moving_the_tcp() -> None:
    angles = HOME + np.array([0.2, 0.1, -0.3, 0.1, 0.2, 0.0, 0.0])
    wanted = np.array([0.02, 0, 0, 0, 0, 0])
    motion = SOLVER.solve(angles, wanted)
    free = JointMotionSolver(FR3, JointLimits(lower=LIMITS.lower, upper=LIMITS.upper, speed=LIMITS.speed, home=angles))
    np.testing.assert_allclose(achieved(angles, motion.speeds), wanted, atol=1e-6)
    assert (motion.speeds - free.solve(angles, wanted).speeds) @ (HOME - angles) > 0.0


@pytest.mark.parametrize("joint", range(7))
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_the_elbows_way_home_stops_no_motion_of_a_joint_at_its_end(joint: int, side: str) -> None:
    """By hand guiding a joint comes to its exact end; the pull home went further out, so no way of the TCP was left."""
    angles = HOME.copy()
    angles[joint] = getattr(LIMITS, side)[joint]
    free = JointMotionSolver(FR3, JointLimits(lower=LIMITS.lower, upper=LIMITS.upper, speed=LIMITS.speed, home=angles))
    for twist in 0.02 * np.vstack([np.eye(6), -np.eye(6)]):
        assert SOLVER.solve(angles, twist).share >= free.solve(angles, twist).share - 1e-9


@pytest.mark.parametrize("beside_rad", [-0.01, 0.01])
def test_an_elbow_that_turns_without_end_goes_home_the_short_way(beside_rad: float) -> None:
    """Home of the Gen3's third joint is half a turn: on its far side the driver tells the angle a turn apart."""
    chain, limits = chain_of("kinova_gen3"), limits_of("kinova_gen3")
    home = np.array(robot("kinova_gen3").home_rad)
    arm, solver = WrappingArm(chain, home + beside_rad * np.eye(7)[2]), JointMotionSolver(chain, limits)
    for tick in range(1000):
        to_and_fro = np.array([0.05 if tick % 200 < 100 else -0.05, 0, 0, 0, 0, 0])
        arm.move(solver.solve(arm.told, to_and_fro).speeds, 0.01)
        assert abs(arm.angles[2] - home[2]) < 0.1


@pytest.mark.parametrize(
    ("name", "endless"),
    [("kinova_gen3", (0, 2, 4, 6)), ("ur5e", ()), ("ur10e", ()), ("xarm6", ()), ("xarm7", ()), ("fr3_franka", ())],
)
def test_a_joint_of_two_turns_has_ends_and_one_of_four_has_none(name: str, endless: tuple[int, ...]) -> None:
    limits = limits_of(name)
    assert tuple(np.flatnonzero(limits.endless)) == endless
    way = limits.way(np.full(len(limits.home), -3.1), np.full(len(limits.home), 3.1))
    np.testing.assert_allclose(way, np.where(limits.endless, 6.2 - 2.0 * np.pi, 6.2))


def test_a_creeping_tcp_has_a_creeping_elbow() -> None:
    motion = SOLVER.solve(HOME + 0.4, np.array([1e-6, 0, 0, 0, 0, 0]))
    assert np.abs(motion.speeds).max() < 1e-4


@pytest.mark.parametrize("name", ["panda", "ur5e", "xarm7", "kinova_gen3"])
def test_every_shipped_arm_can_move_any_way_from_its_home(name: str) -> None:
    chain, limits = chain_of(name), limits_of(name)
    home = np.array(robot(name).home_rad)
    for axis in range(6):
        twist = np.zeros(6)
        twist[axis] = 0.05
        motion = JointMotionSolver(chain, limits).solve(home, twist)
        pose, jacobian = chain.jacobian(home)
        assert motion.share == 1.0
        np.testing.assert_allclose(rotate_twist(jacobian @ motion.speeds, pose.matrix.T), twist, atol=1e-6)


def test_at_a_singularity_what_can_be_had_is_still_followed() -> None:
    chain, limits = chain_of("ur5e"), limits_of("ur5e")
    wrist_aligned = np.array([0.0, -1.5708, 1.5708, -1.5708, 0.002, 0.0])
    pose, jacobian = chain.jacobian(wrist_aligned)
    left, values, _ = np.linalg.svd(np.diag([1, 1, 1, 0.1, 0.1, 0.1]) @ jacobian)
    assert values[-1] < 1e-3
    lost, free = left[:, -1], left[:, 0]
    asked = np.diag([1, 1, 1, 10, 10, 10]) @ (0.05 * free + 0.05 * lost)
    motion = JointMotionSolver(chain, limits).solve(wrist_aligned, rotate_twist(asked, pose.matrix.T))
    got = np.diag([1, 1, 1, 0.1, 0.1, 0.1]) @ (jacobian @ motion.speeds)
    assert motion.share > 0.9
    assert got @ free == pytest.approx(0.05, rel=0.1)
    assert abs(got @ lost) < 0.01


def test_an_arm_of_five_joints_follows_the_position_first() -> None:
    axes = [(0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0)]
    offsets = [(0, 0, 0.1), (0, 0, 0.05), (0, 0, 0.12), (0.13, 0, 0), (0.06, 0, 0)]
    joints = [
        ChainJoint(name=f"j{place}", origin=transform_of(offset, (0, 0, 0)), axis=np.array(axis, dtype=float))
        for place, (axis, offset) in enumerate(zip(axes, offsets))
    ]
    chain = Chain(joints, transform_of((0.08, 0, 0), (0, 0, 0)))
    wide = JointLimits(lower=np.full(5, -2.0), upper=np.full(5, 2.0), speed=np.full(5, 4.0), home=np.zeros(5))
    angles = np.array([0.1, -0.4, 0.8, 0.3, 0.0])
    sideways = np.array([0.0, 0.05, 0.0, 0.0, 0.0, 0.0])
    motion = JointMotionSolver(chain, wide).solve(angles, sideways)
    pose, jacobian = chain.jacobian(angles)
    moved = rotate_twist(jacobian @ motion.speeds, pose.matrix.T)
    assert moved[1] > 0.04
    assert np.abs(moved[[0, 2]]).max() < 0.01
