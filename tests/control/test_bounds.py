"""Box, cone and force as pure functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.safety.bounds import inside_box, inside_cone, soften_push

LOW, HIGH = np.array([-1.0, -1.0, 0.0]), np.array([1.0, 1.0, 1.0])
VECTORS = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)


def test_far_from_walls_nothing_changes():
    velocity = np.array([0.1, -0.2, 0.05])
    np.testing.assert_array_equal(inside_box(velocity, np.array([0, 0, 0.5]), LOW, HIGH, 0.2), velocity)


def test_approach_speed_falls_in_proportion_to_the_distance_left():
    for left in (0.04, 0.02, 0.01, 0.0):
        allowed = inside_box(np.array([0, 0, -1.0]), np.array([0, 0, left]), LOW, HIGH, 0.2)
        assert allowed[2] == pytest.approx(-left / 0.2)


def test_leaving_a_wall_is_never_slowed():
    np.testing.assert_array_equal(inside_box(np.array([0, 0, 1.0]), np.array([0, 0, 0.0]), LOW, HIGH, 0.2), [0, 0, 1.0])


def test_outside_motion_along_the_wall_stops_too():
    position = np.array([0.0, 0.0, -0.05])
    np.testing.assert_array_equal(inside_box(np.array([0.3, 0.3, -0.1]), position, LOW, HIGH, 0.2), np.zeros(3))
    np.testing.assert_array_equal(inside_box(np.array([0.3, 0.0, 0.1]), position, LOW, HIGH, 0.2), [0, 0, 0.1])


@given(angular=VECTORS, tilt=st.floats(0.0, 0.79), azimuth=st.floats(-3, 3), spin=st.floats(-3, 3))
def test_cone_never_lets_tilt_grow_faster_than_the_room_left(angular, tilt, azimuth, spin):
    tool = _tool_axis(tilt, azimuth, spin)
    allowed = inside_cone(angular, tool, 0.8, 0.2)
    dt = 1e-4
    after = _tilt(Rotation.from_rotvec(allowed * dt).apply(tool))
    assert after - tilt <= (0.8 - tilt) / 0.2 * dt + 1e-6
    assert allowed @ tool == pytest.approx(angular @ tool, abs=1e-9)


@given(angular=VECTORS, tilt=st.floats(0.81, 3.0), azimuth=st.floats(-3, 3))
def test_outside_the_cone_tilt_only_shrinks(angular, tilt, azimuth):
    tool = _tool_axis(tilt, azimuth, 0.0)
    allowed = inside_cone(angular, tool, 0.8, 0.2)
    assert _tilt(Rotation.from_rotvec(allowed * 1e-3).apply(tool)) <= tilt + 1e-9


def test_outside_the_cone_the_way_back_passes():
    tool = _tool_axis(1.0, 0.0, 0.0)
    back = np.cross(tool, [0, 0, -1.0])
    np.testing.assert_allclose(inside_cone(back, tool, 0.8, 0.2), back, atol=1e-12)


def test_a_cone_of_pi_limits_nothing():
    np.testing.assert_array_equal(inside_cone(np.ones(3), _tool_axis(3.0, 0, 0), np.pi, 0.2), np.ones(3))


@pytest.mark.parametrize(("force", "left"), [(0.0, 1.0), (10.0, 1.0), (20.0, 0.5), (30.0, 0.0), (99.0, 0.0)])
def test_push_is_scaled_between_soft_and_hard(force: float, left: float):
    softened = soften_push(np.array([0.1, 0.05, 0.0]), np.array([-force, 0, 0]), 10.0, 30.0)
    np.testing.assert_allclose(softened, [0.1 * left, 0.05, 0.0], atol=1e-12)


def test_retreat_from_a_contact_is_never_scaled():
    retreat = np.array([-0.1, 0.02, 0.0])
    np.testing.assert_array_equal(soften_push(retreat, np.array([-50.0, 0, 0]), 10.0, 30.0), retreat)


def _tool_axis(tilt: float, azimuth: float, spin: float) -> np.ndarray:
    turned = Rotation.from_euler("ZYZ", [azimuth, tilt, spin]) * Rotation.from_quat([1.0, 0, 0, 0])
    return turned.apply([0.0, 0.0, 1.0])


def _tilt(tool: np.ndarray) -> float:
    return float(np.arctan2(np.linalg.norm(np.cross(tool, [0, 0, -1.0])), -tool[2]))
