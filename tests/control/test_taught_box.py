"""A box from where the TCP was moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robot_stack.control.taught_box import GRID, LEAST_M, box_of
from robot_stack.types.errors import SpecError


@given(arrays(np.float64, (10, 3), elements=st.floats(-1, 1)), st.floats(0, 0.1))
def test_the_box_holds_every_position_and_little_more(points, margin_m) -> None:
    assume((np.ptp(points, axis=0) + 2 * margin_m > LEAST_M).all())
    low, high = box_of(list(points), margin_m)
    assert (points.min(axis=0) - margin_m >= np.array(low) - 1e-8).all()
    assert (points.max(axis=0) + margin_m <= np.array(high) + 1e-8).all()
    spare = np.ptp([low, high], axis=0) - np.ptp(points, axis=0) - 2 * margin_m
    assert (spare <= 2 / GRID + 1e-9).all()


def test_an_axis_that_was_not_moved_is_named() -> None:
    flat = [np.array([0.1, 0.1, 0.2]), np.array([0.3, 0.3, 0.205])]
    with pytest.raises(SpecError, match="TCP moved 5 mm along z"):
        box_of(flat)


def test_nothing_seen_is_a_sentence() -> None:
    with pytest.raises(SpecError, match="no position was seen"):
        box_of([])
