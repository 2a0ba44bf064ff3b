"""From raw axes to a wanted twist and a deadman."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.engage import Engagement, EngageSettings, apply_deadzone
from robot_stack.types.errors import ConfigError

ZERO = np.zeros(6)
AXES = st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6).map(np.array)
MS = 1_000_000


def axis(value: float) -> np.ndarray:
    return np.array([value, 0, 0, 0, 0, 0])


class Hand:
    """An engagement with a clock; each reading comes `step_ms` after the last."""

    def __init__(self, **settings: object) -> None:
        self.engagement = Engagement(EngageSettings(**settings))
        self.now_ns = 0

    def read(self, raw: np.ndarray, pressed: bool = False, step_ms: int = 4) -> tuple[np.ndarray, bool]:
        self.now_ns += step_ms * MS
        return self.engagement.update(raw, pressed, self.now_ns, fine=False)

    def pressed(self) -> Hand:
        """Let go, then pressed at rest, and the ramp is over."""
        self.read(ZERO)
        self.read(ZERO, pressed=True)
        self.now_ns += 5_000 * MS
        return self


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
    twist, _ = Hand(deadzone=0.0, scale=(-0.5, 1, 1, 1, 1, 0.0)).pressed().read(np.ones(6), pressed=True)
    np.testing.assert_allclose(twist, [-0.5, 1, 1, 1, 1, 0])


@given(raw=AXES)
def test_a_released_deadman_lets_nothing_through(raw):
    twist, deadman = Hand().pressed().read(raw, pressed=False)
    assert not deadman
    assert not twist.any()


def test_nothing_passes_after_reconnection_until_axes_and_deadman_were_let_go():
    hand = Hand().pressed()
    assert hand.read(axis(0.8), pressed=True)[1]
    hand.engagement.connected()
    assert not hand.read(axis(0.8), pressed=True)[1]
    assert not hand.read(ZERO, pressed=True)[1], "still held"
    assert not hand.read(axis(0.8), pressed=False)[1], "still deflected"
    assert not hand.read(ZERO, pressed=False)[1]
    assert hand.read(ZERO, pressed=True)[1]


def test_an_axis_that_is_out_at_the_press_counts_once_it_was_at_rest_the_others_at_once():
    hand = Hand(ramp_s=0.001)
    hand.read(ZERO)
    hand.read(axis(0.9), pressed=True)
    out = np.array([0.9, 0.9, 0, 0, 0, 0])
    assert hand.read(out, pressed=True)[0].tolist()[0] == 0.0
    assert hand.read(out, pressed=True)[0][1] > 0.5
    hand.read(np.array([0, 0.9, 0, 0, 0, 0]), pressed=True)
    assert hand.read(out, pressed=True)[0][0] > 0.5


def test_the_ramp_limits_the_rise_and_never_the_fall():
    hand = Hand(ramp_s=0.1, deadzone=0.0)
    hand.read(ZERO)
    hand.read(ZERO, pressed=True)
    rising = [hand.read(axis(1.0), pressed=True, step_ms=10)[0][0] for _ in range(12)]
    np.testing.assert_allclose(rising[:9], np.arange(1, 10) / 10)
    assert rising[-1] == 1.0
    assert hand.read(axis(0.2), pressed=True)[0][0] == pytest.approx(0.2)
    assert hand.read(ZERO, pressed=True)[0][0] == 0.0


def test_turning_round_starts_again_from_rest():
    hand = Hand(ramp_s=0.1, deadzone=0.0).pressed()
    assert hand.read(axis(1.0), pressed=True)[0][0] == 1.0
    assert hand.read(axis(-1.0), pressed=True, step_ms=10)[0][0] == pytest.approx(-0.1)


def test_motion_takes_control_and_gives_it_back_with_hysteresis_and_starts_at_rest():
    hand = Hand(deadzone=0.0, by_motion=True, enter=0.3, leave=0.1)
    hand.read(ZERO)
    deflections = [0.0, 0.2, 0.31, 0.2, 0.11, 0.09, 0.2]
    results = [hand.read(axis(deflection)) for deflection in deflections]
    assert [engaged for _, engaged in results] == [False, False, True, True, True, False, False]
    assert results[2][0][0] == 0.0
    assert results[3][0][0] > 0.0


def test_an_axis_that_is_blocked_takes_no_control():
    hand = Hand(by_motion=True, scale=(0.0, 1, 1, 1, 1, 1))
    hand.read(ZERO)
    assert not hand.read(axis(1.0))[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"deadzone": 1.0}, {"deadzone": float("nan")}, {"scale": (1.0,) * 5}, {"scale": (2.0,) * 6},
        {"leave": 0.2, "enter": 0.1}, {"near_zero": 0.0}, {"ramp_s": 0.0},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_in_words(settings):
    with pytest.raises(ConfigError, match="must be"):
        EngageSettings(**settings)
