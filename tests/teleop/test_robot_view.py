"""Deflections in the frame of the tool, of the base and of the operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.teleop.robot_view import OLDEST_NS, DeflectionFrame, RobotView
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose, rotate_twist

TWISTS = st.lists(st.floats(-1, 1), min_size=6, max_size=6).map(np.array)
ROTATIONS = st.lists(st.floats(-3, 3), min_size=3, max_size=3).map(Rotation.from_rotvec)
DOWN = Rotation.from_quat([1.0, 0.0, 0.0, 0.0])


def robot(rotation: Rotation, stamp_ns: int = 0) -> RobotView:
    view = RobotView()
    view.see(Pose.from_rotation(np.zeros(3), rotation), stamp_ns)
    return view


@given(TWISTS)
def test_in_the_tools_frame_nothing_is_turned_and_no_robot_is_asked(twist: np.ndarray):
    np.testing.assert_array_equal(DeflectionFrame("tcp", 0.0, RobotView()).to_tcp(twist, 0), twist)


@given(twist=TWISTS, rotation=ROTATIONS)
def test_a_push_in_the_base_frame_points_there_and_no_entry_leaves_the_range(twist: np.ndarray, rotation: Rotation):
    deflection = DeflectionFrame("base", 0.0, robot(rotation)).to_tcp(twist, 0)
    assert np.abs(deflection).max() <= 1.0 + 1e-12
    back = rotate_twist(deflection, rotation.as_matrix())
    for part in (slice(0, 3), slice(3, 6)):
        size = np.linalg.norm(twist[part])
        if size > 1e-3:
            assert np.dot(back[part], twist[part]) == pytest.approx(np.linalg.norm(back[part]) * size, rel=1e-6)
            assert np.linalg.norm(back[part]) <= size * (1 + 1e-9)


def test_with_the_tool_pointing_down_forward_is_forward_and_up_is_up():
    frame = DeflectionFrame("base", 0.0, robot(DOWN))
    np.testing.assert_allclose(frame.to_tcp(np.array([1.0, 0, 0, 0, 0, 0]), 0), [1, 0, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(frame.to_tcp(np.array([0, 0, 1.0, 0, 0, 0.5]), 0), [0, 0, -1, 0, 0, -0.5], atol=1e-12)


def test_for_a_person_who_faces_the_robot_forward_is_towards_its_base():
    frame = DeflectionFrame("viewer", np.pi, robot(Rotation.identity()))
    np.testing.assert_allclose(
        frame.to_tcp(np.array([1.0, 0.5, 0.2, 0, 0, 0.3]), 0), [-1, -0.5, 0.2, 0, 0, 0.3], atol=1e-9
    )


@pytest.mark.parametrize("view", [RobotView(), robot(DOWN, stamp_ns=-OLDEST_NS - 1)])
def test_a_robot_that_has_not_reported_lately_is_an_error(view: RobotView):
    with pytest.raises(RobotError, match="robot state is missing"):
        DeflectionFrame("base", 0.0, view).to_tcp(np.ones(6), 0)
