"""The turn of the tool about its own axis: counted, slowed before its end, free on the way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.safety.tool_turns import TurnCounter, inside_turn
from tests.examples import examples

ANGULAR = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)
RANGE_RAD, APPROACH_S = 1.0, 0.2


def counter_at(rotation: Rotation) -> TurnCounter:
    counter = TurnCounter((0.0, 0.0, 0.0, 1.0))
    counter.watch(rotation.as_quat())
    return counter


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_whole_turns_are_counted_across_pi(sign: float):
    counter = TurnCounter(None)
    for angle in np.arange(0.0, 15.0, 0.3):
        counter.watch(Rotation.from_euler("z", sign * angle).as_quat())
        assert counter.turn_rad == pytest.approx(sign * angle, abs=1e-9)


@given(turn=st.floats(-3.0, 3.0), tilt=st.floats(0.0, 1.5), azimuth=st.floats(-3.0, 3.0))
def test_a_tilt_alone_is_no_turn(turn: float, tilt: float, azimuth: float):
    tilted = Rotation.from_rotvec(tilt * np.array([np.cos(azimuth), np.sin(azimuth), 0.0]))
    assert counter_at(tilted * Rotation.from_euler("z", turn)).turn_rad == pytest.approx(turn, abs=1e-9)


@given(start=st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array), angular=ANGULAR)
def test_its_rate_is_that_of_finite_differences(start: np.ndarray, angular: np.ndarray):
    rotation, step = Rotation.from_rotvec(start), 1e-6
    counter = counter_at(rotation)
    rate = angular[2] + counter.by_tilt[0] * angular[0] + counter.by_tilt[1] * angular[1]
    after = counter_at(rotation * Rotation.from_rotvec(angular * step)).turn_rad
    assert (after - counter.turn_rad) / step == pytest.approx(rate, abs=1e-4)


@settings(max_examples=examples(200))
@example(angular=np.array([0.0, 1.0, 1.0]), turn=1.0, x=0.0, y=1e-46)
@example(angular=np.array([0.0, 1.0, 1.0]), turn=1.0, x=0.0, y=1e-12)
@given(angular=ANGULAR, turn=st.floats(-2, 2), x=st.floats(-0.5, 0.5), y=st.floats(-0.5, 0.5))
def test_it_is_never_lengthened_and_never_faster_than_the_turn_left(
    angular: np.ndarray, turn: float, x: float, y: float
):
    allowed = inside_turn(angular, turn, (x, y), RANGE_RAD, APPROACH_S)
    assert (np.abs(allowed) <= np.abs(angular) + 1e-12).all()
    rate = float(allowed @ [x, y, 1.0])
    assert rate <= max(RANGE_RAD - turn, 0.0) / APPROACH_S + 2e-9
    assert rate >= -max(RANGE_RAD + turn, 0.0) / APPROACH_S - 2e-9
    np.testing.assert_allclose(inside_turn(allowed, turn, (x, y), RANGE_RAD, APPROACH_S), allowed, atol=1e-12)


def test_a_rounded_sum_at_the_end_of_the_range_lets_no_turn_through():
    angular = np.array([-0.5565758412730432, 0.0, 1.0])  # its tilt turns the tool back, by half of what it spins
    allowed = inside_turn(angular, RANGE_RAD, (0.5, 0.0), RANGE_RAD, APPROACH_S)
    assert allowed[0] == angular[0]
    assert abs(allowed @ [0.5, 0.0, 1.0]) < 1e-12


def test_of_many_commands_near_the_end_none_turns_the_tool_further_than_is_left():
    random = np.random.default_rng(0)
    for _ in range(2000):
        angular, tilts = random.uniform(-1, 1, 3), tuple(random.uniform(-0.5, 0.5, 2))
        turn = random.choice((-1, 1)) * random.uniform(0.8, 1.2) * RANGE_RAD
        rate = float(inside_turn(angular, turn, tilts, RANGE_RAD, APPROACH_S) @ [*tilts, 1.0])
        assert rate <= max(RANGE_RAD - turn, 0.0) / APPROACH_S + 2e-9
        assert rate >= -max(RANGE_RAD + turn, 0.0) / APPROACH_S - 2e-9


def test_within_the_range_and_on_the_way_back_nothing_changes():
    inward, outward = np.array([0.1, 0.2, -0.9]), np.array([0.1, 0.2, 0.9])
    np.testing.assert_array_equal(inside_turn(outward, 0.0, (0.0, 0.0), RANGE_RAD, APPROACH_S), outward)
    np.testing.assert_array_equal(inside_turn(inward, 1.5, (0.0, 0.0), RANGE_RAD, APPROACH_S), inward)
    np.testing.assert_allclose(inside_turn(outward, 1.5, (0.0, 0.0), RANGE_RAD, APPROACH_S), [0.1, 0.2, 0.0])
