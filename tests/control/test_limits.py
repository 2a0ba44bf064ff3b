"""Limits are validated against hard caps."""

from __future__ import annotations

import math

import pytest

from robot_stack.config.safety import CAPS
from robot_stack.control.safety.limits import MAY_BE_ZERO, JointLimit, SafetyLimits
from robot_stack.types.errors import ConfigError

BOX = {"box_min_m": (-0.2, -0.2, 0.0), "box_max_m": (0.2, 0.2, 0.3)}


@pytest.mark.parametrize("name", sorted(set(CAPS) - {"soft_force_n"}))
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e6])
def test_a_limit_outside_its_cap_is_named(name: str, bad: float):
    if name in MAY_BE_ZERO and bad == 0.0:
        assert SafetyLimits(**BOX, **{name: bad})
        return
    with pytest.raises(ConfigError, match=f"{name} is"):
        SafetyLimits(**BOX, **{name: bad})


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        SafetyLimits(**BOX, max_speed_m_s=9.0, soft_force_n=40.0, retract_m_s=-0.1)
    for name in ("max_speed_m_s", "soft_force_n", "retract_m_s"):
        assert name in str(caught.value)


@pytest.mark.parametrize("low", [0.3, 0.4, math.nan, -math.inf])
def test_a_box_must_be_finite_and_rising(low: float):
    with pytest.raises(ConfigError, match="box on z"):
        SafetyLimits(box_min_m=(0.0, 0.0, low), box_max_m=(0.1, 0.1, 0.3))


def test_zero_is_a_fine_corner_of_a_box():
    assert SafetyLimits(**BOX).box_min_m[2] == 0.0


@pytest.mark.parametrize(
    ("low", "high", "speed"),
    [(math.nan, 1.0, 1.0), (-1.0, math.inf, 1.0), (1.0, 1.0, 1.0), (-1.0, 1.0, 0.0), (-1.0, 1.0, math.nan)],
)
def test_a_joint_must_have_a_finite_range_and_speed(low: float, high: float, speed: float):
    with pytest.raises(ConfigError, match="joint elbow is"):
        SafetyLimits(**BOX, joints=(JointLimit(name="elbow", min_rad=low, max_rad=high, max_speed_rad_s=speed),))


@pytest.mark.parametrize("zero", [(0.0, 0.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 1.0), (1.0, 1.0, 0.0, 0.0)])
def test_the_zero_of_the_turn_must_be_a_quaternion(zero: tuple[float, float, float, float]):
    with pytest.raises(ConfigError, match="yaw_zero_xyzw is"):
        SafetyLimits(**BOX, yaw_zero_xyzw=zero)
