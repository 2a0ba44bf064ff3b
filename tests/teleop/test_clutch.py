"""A follower that repeats the motion of a handle while the clutch is held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.teleop.clutch import Clutch
from robot_stack.types.pose import Pose, rotate_twist
from tests.examples import examples

FULL = np.array([0.1, 0.1, 0.1, 0.6, 0.6, 0.6])
TICK_S = 0.02
DOWN = Rotation.from_quat([1.0, 0.0, 0.0, 0.0])


def pose(*position_m: float, rotation: Rotation | None = None) -> Pose:
    return Pose.from_rotation(np.array(position_m), rotation or Rotation.identity())


def moved(follower: Pose, deflection: np.ndarray, full: np.ndarray = FULL) -> Pose:
    """An arm that follows exactly."""
    base = rotate_twist(deflection * full, follower.matrix) * TICK_S
    return Pose.from_rotation(follower.position_m + base[:3], Rotation.from_rotvec(base[3:]) * follower.rotation)


def settled(clutch: Clutch, handle: Pose, follower: Pose, ticks: int = 150) -> Pose:
    for _ in range(ticks):
        follower = moved(follower, clutch.follow(handle, follower))
    return follower


ROTATIONS = st.lists(st.floats(-2, 2), min_size=3, max_size=3).map(Rotation.from_rotvec)


@given(handle=ROTATIONS, follower=ROTATIONS, far=st.floats(-5, 5))
def test_closing_the_clutch_moves_nothing_wherever_both_are(handle: Rotation, follower: Rotation, far: float):
    clutch = Clutch(FULL, gain_per_s=5.0)
    at = pose(far, 0, 0, rotation=handle)
    for _ in range(3):
        assert np.abs(clutch.follow(at, pose(0.4, 0, 0.2, rotation=follower))).max() < 1e-6


@pytest.mark.long
@settings(max_examples=examples(12), deadline=None)
@given(start=ROTATIONS, turn=st.lists(st.floats(-0.05, 0.05), min_size=3, max_size=3))
def test_the_follower_ends_where_the_handle_was_moved_in_the_base_frame(start: Rotation, turn: list[float]):
    clutch = Clutch(FULL, gain_per_s=5.0)
    follower = pose(0.4, 0.0, 0.2, rotation=start)
    clutch.follow(pose(0, 0, 0), follower)
    handle = pose(0.01, -0.005, 0.008, rotation=Rotation.from_rotvec(turn))
    end = settled(clutch, handle, follower)
    np.testing.assert_allclose(end.position_m - follower.position_m, handle.position_m, atol=1e-6)
    turned = (end.rotation * start.inv()).as_rotvec()
    np.testing.assert_allclose(turned, turn, atol=1e-6)


def test_translation_is_scaled_and_turned_to_the_followers_base_and_rotation_is_one_to_one():
    clutch = Clutch(FULL, gain_per_s=5.0, motion_scale=0.5, yaw_rad=np.pi / 2)
    follower = pose(0, 0, 0, rotation=DOWN)
    clutch.follow(pose(0, 0, 0), follower)
    handle = pose(0.02, 0, 0, rotation=Rotation.from_rotvec([0.05, 0, 0]))
    end = settled(clutch, handle, follower)
    np.testing.assert_allclose(end.position_m, [0, 0.01, 0], atol=1e-6)
    np.testing.assert_allclose((end.rotation * DOWN.inv()).as_rotvec(), [0, 0.05, 0], atol=1e-6)


def test_a_handle_that_is_too_fast_is_followed_at_full_speed_and_the_rest_is_let_go():
    clutch = Clutch(FULL, gain_per_s=5.0)
    follower, handle_m = pose(0, 0, 0), 0.0
    clutch.follow(pose(0, 0, 0), follower)
    for _ in range(50):
        handle_m += 0.5 * TICK_S
        deflection = clutch.follow(pose(handle_m, 0, 0), follower)
        assert np.abs(deflection).max() <= 1.0
        follower = moved(follower, deflection)
    assert deflection[0] == pytest.approx(1.0)
    stopped_m = follower.position_m[0]
    end = settled(clutch, pose(handle_m, 0, 0), follower)
    assert end.position_m[0] - stopped_m <= FULL[0] / 5.0 + 1e-6
    back = clutch.follow(pose(handle_m - 0.01, 0, 0), end)
    assert back[0] < 0.0, "it turns round at once"


def test_axes_that_do_not_move_are_left_out_and_are_not_made_up_for_later():
    full = np.array([0.1, 0.1, 0.1, 0.0, 0.0, 0.6])
    clutch = Clutch(full, gain_per_s=5.0)
    follower = pose(0, 0, 0)
    clutch.follow(pose(0, 0, 0), follower)
    handle = pose(0.01, 0, 0, rotation=Rotation.from_rotvec([0.3, 0, 0]))
    deflection = clutch.follow(handle, follower)
    assert deflection[3] == deflection[4] == 0.0
    assert deflection[0] == pytest.approx(0.5)


def test_opening_and_closing_again_starts_from_where_both_are():
    clutch = Clutch(FULL, gain_per_s=5.0)
    clutch.follow(pose(0, 0, 0), pose(0, 0, 0))
    assert clutch.follow(pose(0.01, 0, 0), pose(0, 0, 0))[0] > 0.0
    clutch.open()
    assert not clutch.follow(pose(0.5, 0, 0), pose(0, 0, 0)).any()
