"""A free twist changes frame with R alone; adding p x w, as for a twist about the origin, couples its halves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.types.pose import Pose, rotate_twist, turn_between
from tests.control.filter_rig import DOWN, Rig
from tests.examples import examples

PARTS = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)
TWISTS = st.lists(st.floats(-1, 1), min_size=6, max_size=6).map(np.array)
POSES = st.builds(lambda p, r: Pose.from_rotation(p, Rotation.from_rotvec(3 * r)), PARTS, PARTS)


def adjoint(twist: np.ndarray, pose: Pose) -> np.ndarray:
    """What released stacks do with the twist of a tool: the transform of a twist about the origin."""
    turned = rotate_twist(twist, pose.matrix)
    turned[:3] += np.cross(pose.position_m, turned[3:])
    return turned


def carried_out(twist_base: np.ndarray, pose: Pose, seconds: float = 0.1) -> Pose:
    moved = twist_base * seconds
    return Pose.from_rotation(pose.position_m + moved[:3], Rotation.from_rotvec(moved[3:]) * pose.rotation)


@settings(deadline=None)
@given(pose=POSES, other=POSES)
def test_poses_turn_and_compose_as_scipy_has_it(pose: Pose, other: Pose) -> None:
    np.testing.assert_allclose(pose.matrix, pose.rotation.as_matrix(), atol=1e-12)
    there = pose @ other
    np.testing.assert_allclose(there.position_m, pose.position_m + pose.rotation.apply(other.position_m), atol=1e-12)
    np.testing.assert_allclose(there.matrix, (pose.rotation * other.rotation).as_matrix(), atol=1e-12)
    back = pose.inverse()
    np.testing.assert_allclose(back.position_m, -pose.rotation.inv().apply(pose.position_m), atol=1e-12)
    np.testing.assert_allclose(back.matrix, pose.rotation.inv().as_matrix(), atol=1e-12)
    turn = turn_between(other, pose)
    assert np.linalg.norm(turn) <= np.pi + 1e-9
    np.testing.assert_allclose(
        Rotation.from_rotvec(turn).as_matrix(), (pose.rotation * other.rotation.inv()).as_matrix(), atol=1e-7
    )
    np.testing.assert_allclose(Pose.from_rotation_matrix(pose.position_m, pose.matrix).matrix, pose.matrix, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 0.3, np.pi - 1e-6])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_turn_of_any_size_is_measured_from_either_of_its_two_quaternions(angle: float, sign: float) -> None:
    wanted = angle * np.array([0.6, 0.0, 0.8])
    turned = Pose(position_m=np.zeros(3), quaternion_xyzw=sign * Rotation.from_rotvec(wanted).as_quat())
    np.testing.assert_allclose(turn_between(Pose.identity(), turned), wanted, rtol=1e-6, atol=1e-15)


@settings(deadline=None)
@given(twist=TWISTS, pose=POSES)
def test_there_and_back_is_the_same_twist_and_neither_half_changes_size(twist, pose):
    there = rotate_twist(twist, pose.matrix)
    np.testing.assert_allclose(rotate_twist(there, pose.matrix.T), twist, atol=1e-12)
    for half in (slice(0, 3), slice(3, 6)):
        np.testing.assert_allclose(np.linalg.norm(there[half]), np.linalg.norm(twist[half]), atol=1e-12)


@settings(deadline=None)
@given(twist=TWISTS, pose=POSES, other=POSES)
def test_one_tool_twist_moves_the_tool_alike_wherever_it_is(twist, pose, other):
    ends = [carried_out(rotate_twist(twist, p.matrix), p).relative_to(p) for p in (pose, other)]
    np.testing.assert_allclose(ends[0].position_m, ends[1].position_m, atol=1e-9)
    np.testing.assert_allclose((ends[0].rotation.inv() * ends[1].rotation).magnitude(), 0.0, atol=1e-9)


@settings(deadline=None)
@given(turn=PARTS, pose=POSES)
def test_turning_about_the_tool_leaves_it_where_it_is_and_the_adjoint_does_not(turn, pose):
    spin = np.concatenate([np.zeros(3), turn])
    assert not rotate_twist(spin, pose.matrix)[:3].any()
    base_turn = pose.rotation.apply(turn)
    coupled = np.cross(pose.position_m, base_turn)  # the metres a second that the faulty way adds
    np.testing.assert_allclose(adjoint(spin, pose)[:3], coupled, atol=1e-12)
    drift = carried_out(adjoint(spin, pose), pose).position_m - pose.position_m
    np.testing.assert_allclose(drift, 0.1 * coupled, atol=1e-12)


def test_the_adjoint_throws_a_tool_at_half_a_metre_by_centimetres():
    pose = Pose.from_rotation(np.array([0.5, 0.0, 0.2]), DOWN)
    spin = np.array([0, 0, 0, 0, 0, 0.6])
    assert np.linalg.norm(carried_out(adjoint(spin, pose), pose).position_m - pose.position_m) > 0.02
    assert np.linalg.norm(carried_out(rotate_twist(spin, pose.matrix), pose).position_m - pose.position_m) == 0.0


@settings(max_examples=examples(30), deadline=None)
@given(motion=st.lists(st.floats(-0.1, 0.1), min_size=6, max_size=6).map(np.array), yaw=st.floats(-3, 3))
def test_the_filter_executes_a_command_alike_in_either_frame(motion, yaw):
    ends = []
    for frame in ("tcp", "base"):
        rig = Rig().armed()
        rig.pose = Pose.from_rotation(rig.pose.position_m, Rotation.from_euler("z", yaw) * DOWN)
        for _ in range(20):
            sent = motion if frame == "tcp" else rotate_twist(motion, rig.pose.matrix)
            rig.offer(rig.command(sent, frame=frame))
            rig.tick()
        ends.append(rig.log[-1].decision.command.twist)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)


@given(rpy=st.lists(st.floats(-7, 7), min_size=3, max_size=3).map(np.array))
def test_turns_about_fixed_axes_are_scipys(rpy: np.ndarray) -> None:
    """In that order: about the fixed x, then y, then z axis, as URDF and the files of cells mean them."""
    pose = Pose.from_rpy(np.array([0.1, -0.2, 0.3]), rpy)
    expected = Rotation.from_euler("xyz", rpy)
    np.testing.assert_allclose(pose.matrix, expected.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(pose.rotation.as_matrix(), expected.as_matrix(), atol=1e-12)
