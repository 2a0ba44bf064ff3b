"""From raw axes to a wanted twist and a deadman."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.engage import Engagement, EngageSettings, apply_deadzone
from robot_stack.types.errors import ConfigError, RobotError

ZERO = np.zeros(6)
AXES = st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6).map(np.array)


def axis(value: float) -> np.ndarray:
    return np.array([value, 0, 0, 0, 0, 0])


def ready(**settings: object) -> Engagement:
    engagement = Engagement(EngageSettings(**settings))
    engagement.update(ZERO, False)
    return engagement


@given(raw=AXES, deadzone=st.floats(0, 0.9))
def test_deadzone_is_zero_inside_odd_and_at_most_one(raw, deadzone):
    shaped = apply_deadzone(raw, deadzone)
    assert (shaped[np.abs(raw) <= deadzone] == 0).all()
    assert np.abs(shaped).max() <= 1.0
    np.testing.assert_allclose(apply_deadzone(-raw, deadzone), -shaped)


def test_there_is_no_step_at_the_edge_of_the_deadzone():
    assert apply_deadzone(np.array([0.1001]), 0.1)[0] == pytest.approx(0.0, abs=2e-4)
    assert apply_deadzone(np.array([1.0]), 0.1)[0] == 1.0


def test_scale_is_per_axis_and_may_turn_it_round():
    engagement = ready(deadzone=0.0, scale=(-0.5, 1, 1, 1, 1, 0.0))
    twist, _ = engagement.update(np.ones(6), True)
    np.testing.assert_allclose(twist, [-0.5, 1, 1, 1, 1, 0])


@given(raw=AXES)
def test_a_released_deadman_lets_nothing_through(raw):
    twist, deadman = ready().update(raw, False)
    assert not deadman
    assert not twist.any()


def test_nothing_passes_after_reconnection_until_the_axes_were_let_go():
    engagement = ready()
    assert engagement.update(axis(0.8), True)[1]
    engagement.connected()
    for _ in range(5):
        twist, deadman = engagement.update(axis(0.8), True)
        assert not deadman
        assert not twist.any()
    engagement.update(ZERO, True)
    assert engagement.update(axis(0.8), True)[1]


def test_motion_takes_control_with_hysteresis():
    engagement = ready(deadzone=0.0, by_motion=True, enter=0.2, leave=0.1)
    deadmen = [engagement.update(axis(value), False)[1] for value in (0.15, 0.25, 0.15, 0.05, 0.15, -0.3)]
    assert deadmen == [False, True, True, False, False, True]


@pytest.mark.parametrize("raw", [np.full(6, np.nan), np.array([np.inf, 0, 0, 0, 0, 0]), np.zeros(5)])
def test_nonsense_from_the_device_is_an_error_and_no_motion(raw: np.ndarray):
    with pytest.raises(RobotError, match="six finite numbers"):
        ready().update(raw, True)


@pytest.mark.parametrize(
    "settings",
    [{"deadzone": 1.0}, {"scale": (1.0,) * 5}, {"scale": (2.0,) * 6}, {"leave": 0.2}, {"near_zero": 0.0}],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object]):
    with pytest.raises(ConfigError, match="must be"):
        EngageSettings(**settings)
