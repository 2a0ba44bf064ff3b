"""Speed, acceleration and jerk as pure functions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.control.safety.bounds import limit_acceleration, limit_jerk, limit_norm

VECTORS = st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3).map(np.array)
ACCELERATION, JERK, DT_S = 2.5, 60.0, 0.01


def follow(target: np.ndarray, start: np.ndarray, ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocities, shape (ticks+1, 3), and accelerations, shape (ticks, 3), on the way to a target."""
    velocities, accelerations, acceleration = [start], [], np.zeros(3)
    for _ in range(ticks):
        after = limit_jerk(target, velocities[-1], acceleration, ACCELERATION, JERK, DT_S)
        acceleration = (after - velocities[-1]) / DT_S
        velocities.append(after)
        accelerations.append(acceleration)
    return np.array(velocities), np.array(accelerations)


@given(vector=VECTORS, largest=st.floats(0.01, 0.2))
def test_norm_limit_keeps_the_direction(vector, largest):
    limited = limit_norm(vector, largest)
    assert np.linalg.norm(limited) <= largest + 1e-12
    np.testing.assert_allclose(np.cross(limited, vector), 0.0, atol=1e-12)
    assert limited @ vector >= 0.0


@given(target=VECTORS, last=VECTORS)
def test_acceleration_limit_goes_towards_the_target_and_lands_on_it(target, last):
    for _ in range(80):
        after = limit_acceleration(target, last, ACCELERATION, DT_S)
        assert np.linalg.norm(after - last) <= ACCELERATION * DT_S + 1e-12
        last = after
    np.testing.assert_allclose(last, target, atol=1e-12)


@given(target=VECTORS, start=VECTORS)
def test_jerk_limit_lands_without_exceeding_acceleration_or_jerk(target, start):
    velocities, accelerations = follow(target, start, 120)
    assert np.linalg.norm(accelerations, axis=1).max() <= ACCELERATION * 1.001
    jerks = np.diff(np.vstack([np.zeros(3), accelerations]), axis=0) / DT_S
    assert np.linalg.norm(jerks, axis=1).max() <= JERK * 1.001
    np.testing.assert_allclose(velocities[-1], target, atol=1e-9)


@given(goal=st.floats(0.01, 0.5))
def test_jerk_limit_does_not_overshoot_a_resting_target(goal):
    velocities, _ = follow(np.array([goal, 0, 0]), np.zeros(3), 120)
    assert velocities[:, 0].max() <= goal + JERK * DT_S**2 * 0.2
    np.testing.assert_array_equal(velocities[:, 1:], 0.0)


def test_jerk_limit_returns_to_exact_zero():
    velocities, _ = follow(np.zeros(3), np.array([0.2, -0.1, 0.05]), 120)
    np.testing.assert_array_equal(velocities[-1], np.zeros(3))
