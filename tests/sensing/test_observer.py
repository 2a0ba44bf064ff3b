"""Frames and states become the observation that the spec declares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.sensing.observer import Observer
from robot_stack.sensing.sync import Snapshot
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec

FIELDS = (("gripper", 1), ("tcp_pose", 6), ("wrench", 6), ("tcp_twist", 6))
VECTORS = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)


def spec(fields: tuple[tuple[str, int], ...] = FIELDS, arms: tuple[str, ...] = ("arm",)) -> Spec:
    return Spec(
        arms=tuple(ArmSpec(name=name, translation_m=0.01, rotation_rad=0.1) for name in arms),
        cameras=(CameraSpec(name="wrist", height_px=8, width_px=8),),
        proprio=tuple(ProprioField(name=name, size=size) for name, size in fields),
        rate_hz=10.0,
    )


def state(pose: Pose, arm: str = "arm") -> RobotState:
    return RobotState(
        arm=arm,
        stamp_ns=1,
        T_base_tcp=pose,
        twist=np.arange(6.0),
        wrench=10 + np.arange(6.0),
        joints_rad=np.arange(7.0),
        joint_speeds_rad_s=np.zeros(7),
        gripper=0.25,
    )


def snapshot(*states: RobotState) -> Snapshot:
    images = {"wrist": np.zeros((8, 8, 3), np.uint8)}
    return Snapshot(images=images, states={one.arm: one for one in states}, age_s=0.02, skew_s=0.01)


def test_fields_come_in_the_order_of_the_spec():
    observation = Observer(spec()).observe(snapshot(state(Pose.identity())), 77)
    assert observation.proprio.dtype == np.float32
    np.testing.assert_array_equal(observation.proprio, [0.25, *[0] * 6, *range(10, 16), *range(6)])
    np.testing.assert_array_equal(observation.T_base_tcp["arm"].matrix, np.eye(3))
    assert (observation.stamp_ns, observation.age_s, observation.skew_s) == (77, 0.02, 0.01)


@pytest.mark.long
@given(start=VECTORS, turn=VECTORS, step=VECTORS, twirl=VECTORS)
def test_pose_is_relative_to_the_start_wherever_the_episode_started(start, turn, step, twirl):
    motion = Pose.from_rotation(step, Rotation.from_rotvec(twirl))
    first = Pose.from_rotation(start, Rotation.from_rotvec(turn))
    observer = Observer(spec((("tcp_pose", 6),)))
    np.testing.assert_allclose(observer.observe(snapshot(state(first)), 1).proprio, 0.0, atol=1e-6)
    moved = observer.observe(snapshot(state(first @ motion)), 2).proprio
    np.testing.assert_allclose(moved, [*step, *twirl], atol=1e-5)


def test_a_new_episode_has_a_new_start_pose():
    observer = Observer(spec((("tcp_pose", 6),)))
    there = Pose(position_m=np.ones(3), quaternion_xyzw=np.array([0, 0, 0, 1.0]))
    observer.observe(snapshot(state(Pose.identity())), 1)
    assert observer.observe(snapshot(state(there)), 2).proprio.any()
    observer.begin_episode()
    assert not observer.observe(snapshot(state(there)), 3).proprio.any()


def test_with_two_arms_each_field_names_its_own():
    observer = Observer(spec((("right.gripper", 1), ("left.joints", 7)), ("left", "right")))
    left, right = state(Pose.identity(), "left"), replace(state(Pose.identity(), "right"), gripper=0.9)
    np.testing.assert_allclose(observer.observe(snapshot(left, right), 1).proprio, [0.9, *range(7)])


@pytest.mark.parametrize(
    ("fields", "arms", "word"),
    [
        ((("tcp_pos", 3),), ("arm",), "must be one of"),
        ((("other.gripper", 1),), ("arm",), "must be one of"),
        ((("tcp_pose", 7),), ("arm",), "must be 6"),
        ((("gripper", 1),), ("left", "right"), "must name its arm"),
    ],
)
def test_a_field_that_cannot_be_read_is_refused_at_the_start(fields, arms, word):
    with pytest.raises(SpecError, match=word):
        Observer(spec(fields, arms))


def test_joints_of_another_robot_are_refused():
    with pytest.raises(SpecError, match="proprio joints is"):
        Observer(spec((("joints", 6),))).observe(snapshot(state(Pose.identity())), 1)


def test_a_non_finite_reading_never_becomes_an_observation():
    broken = replace(state(Pose.identity()), wrench=np.full(6, np.nan))
    with pytest.raises(SpecError, match="finite"):
        Observer(spec()).observe(snapshot(broken), 1)


def test_the_direction_is_one_and_on_the_way_back_minus_one():
    observer = Observer(spec((("tcp_pose", 6), ("direction", 1))))
    assert observer.observe(snapshot(state(Pose.identity())), 1).proprio[6] == 1.0
    observer.begin_episode(told=(-1.0,))
    assert observer.observe(snapshot(state(Pose.identity())), 2).proprio[6] == -1.0
    observer.begin_episode()
    assert observer.observe(snapshot(state(Pose.identity())), 3).proprio[6] == 1.0


def test_two_arms_have_one_direction():
    observer = Observer(spec((("direction", 1), ("left.gripper", 1)), ("left", "right")))
    observer.begin_episode(told=(-1.0,))
    both = snapshot(state(Pose.identity(), "left"), state(Pose.identity(), "right"))
    np.testing.assert_allclose(observer.observe(both, 1).proprio, [-1.0, 0.25])


def test_a_second_try_is_measured_from_where_the_first_began():
    observer = Observer(spec((("tcp_pose", 6), ("direction", 1))))
    there = Pose(position_m=np.ones(3), quaternion_xyzw=np.array([0, 0, 0, 1.0]))
    observer.begin_episode(told=(-1.0,))
    observer.observe(snapshot(state(Pose.identity())), 1)
    observer.begin_episode(told=(-1.0,), again=True)
    np.testing.assert_allclose(observer.observe(snapshot(state(there)), 2).proprio[:3], 1.0)
    observer.begin_episode(again=True)  # the other way begins where it begins
    assert not observer.observe(snapshot(state(there)), 3).proprio[:6].any()
