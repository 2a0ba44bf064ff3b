"""Forward kinematics and Jacobian against MuJoCo, finite differences and what manufacturers print."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.control.kinematics.chain import Chain, ChainJoint
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose
from robot_stack.workcell.build_arm import build_chain
from tests.control.fr3_chain import HOME, MujocoFr3, chain_of, limits_of, robot
from tests.examples import examples

FR3 = chain_of("fr3_franka")
FR3_LIMITS = limits_of("fr3_franka")
MUJOCO = MujocoFr3()
shares = st.lists(st.floats(0, 1), min_size=7, max_size=7).map(np.array)


def angles_at(share: np.ndarray) -> np.ndarray:
    return FR3_LIMITS.lower + share * (FR3_LIMITS.upper - FR3_LIMITS.lower)


@settings(max_examples=examples(100), deadline=None)
@given(shares)
def test_the_fr3_stands_where_mujoco_puts_it(share: np.ndarray) -> None:
    angles = angles_at(share)
    pose, jacobian = FR3.jacobian(angles)
    wanted, wanted_jacobian = MUJOCO.jacobian(angles)
    off = pose.relative_to(wanted)
    assert np.abs(off.position_m).max() < 1e-6
    assert off.rotation.magnitude() < 1e-6
    np.testing.assert_allclose(jacobian, wanted_jacobian, atol=1e-6)


def test_the_simulated_arm_has_the_kinematics_of_the_real_one() -> None:
    shown = load(config_root() / "robots" / "fr3.yaml", ROBOTS)
    chain = build_chain(shown)
    assert chain is not None
    shown_pose, wanted_pose = chain.pose(HOME), FR3.pose(HOME)
    np.testing.assert_allclose(chain.jacobian(HOME)[1], FR3.jacobian(HOME)[1], atol=1e-12)
    assert (shown_pose.rotation * wanted_pose.rotation.inv()).magnitude() < 1e-9


@settings(max_examples=examples(20), deadline=None)
@given(shares, st.integers(0, 6))
def test_a_column_of_the_jacobian_is_what_one_joint_does(share: np.ndarray, joint: int) -> None:
    angles, step = angles_at(share), np.zeros(7)
    step[joint] = 1e-6
    before, after = FR3.pose(angles - step), FR3.pose(angles + step)
    turned = (after.rotation * before.rotation.inv()).as_rotvec()
    difference = np.concatenate([after.position_m - before.position_m, turned]) / 2e-6
    np.testing.assert_allclose(FR3.jacobian(angles)[1][:, joint], difference, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "angles", "position_m", "axis_z"),
    [
        ("fr3_franka", HOME, [0.3069, 0.0, 0.4869], [0, 0, -1]),  # Franka's ready pose
        ("panda", HOME, [0.3069, 0.0, 0.4869 + 0.1034], [0, 0, -1]),  # at the hand's base, as Servo turns it
        ("ur3e", np.zeros(6), [-0.4568, -0.2231, 0.0665], [0, -1, 0]),  # sums of UR's table
        ("ur5e", np.zeros(6), [-0.8172, -0.2329, 0.0628], [0, -1, 0]),
        ("ur10e", np.zeros(6), [-1.1843, -0.2907, 0.0609], [0, -1, 0]),
        ("xarm6", np.zeros(6), [0.207, 0.0, 0.112 - 0.172], [0, 0, -1]),  # sums of xarm_description, less the gripper
        (
            "xarm7",
            np.zeros(7),
            [0.206, 0.0, 0.1205 - 0.172],
            [0, 0, -1],
        ),  # the manual's zero position, less the gripper
        ("kinova_gen3", None, [0.577, 0.001, 0.434], [1, 0, 0]),  # Kinova's home with a 2F-85
    ],
)
def test_shipped_arms_stand_where_their_makers_say(name: str, angles, position_m, axis_z) -> None:
    pose = chain_of(name).pose(np.array(robot(name).home_rad) if angles is None else angles)
    np.testing.assert_allclose(pose.position_m, position_m, atol=1e-3)
    np.testing.assert_allclose(pose.rotation.as_matrix()[:, 2], axis_z, atol=1e-3)


def test_a_chain_of_one_joint_turns_its_tip() -> None:
    tip = np.eye(4)
    tip[0, 3] = 0.5
    chain = Chain([ChainJoint(name="a", origin=np.eye(4), axis=np.array([0.0, 0.0, 2.0]))], tip)
    pose, jacobian = chain.jacobian(np.array([np.pi / 2]))
    np.testing.assert_allclose(pose.position_m, [0, 0.5, 0], atol=1e-12)
    np.testing.assert_allclose(jacobian[:, 0], [-0.5, 0, 0, 0, 0, 1], atol=1e-12)
    assert (pose.rotation * Rotation.from_euler("z", -np.pi / 2)).magnitude() < 1e-9


@settings(deadline=None)
@given(st.lists(st.floats(-4, 4), min_size=3, max_size=3), st.sampled_from([None, 0, 1, 2]))
def test_a_pose_from_a_matrix_has_its_rotation(vector: list[float], half_turn_about: int | None) -> None:
    rotation = Rotation.from_rotvec(vector)
    if half_turn_about is not None:  # where three of the four ways to a quaternion divide by next to nothing
        rotation = Rotation.from_rotvec(np.pi * np.eye(3)[half_turn_about])
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = rotation.as_matrix(), [1.0, 2.0, 3.0]
    pose = Pose.from_matrix(transform)
    assert (pose.rotation * rotation.inv()).magnitude() < 1e-7
    np.testing.assert_array_equal(pose.position_m, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("axis", [np.zeros(3), np.full(3, np.nan)])
def test_a_joint_without_an_axis_is_refused_by_name(axis: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="joint elbow has axis"):
        ChainJoint(name="elbow", origin=np.eye(4), axis=axis)
