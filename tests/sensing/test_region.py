"""A crop proposed from what moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.sensing.crop import Roi, fitted, propose_roi, scaled
from robot_stack.types.errors import SpecError


def film(boxes: list[tuple[int, int, int, int]], size: tuple[int, int] = (120, 160)) -> list[np.ndarray]:
    """A white box per frame, (top, left, bottom, right), on noise."""
    rng = np.random.default_rng(0)
    frames = []
    for top, left, bottom, right in boxes:
        frame = rng.integers(90, 100, (*size, 3)).astype(np.uint8)
        frame[top:bottom, left:right] = 250
        frames.append(frame)
    return frames


def test_the_box_holds_everything_that_moved() -> None:
    roi = propose_roi(film([(40, 60, 50, 70), (70, 90, 80, 100)]), aspect=1.0)
    assert roi.top <= 41
    assert roi.left <= 61
    assert roi.top + roi.height >= 79
    assert roi.left + roi.width >= 99
    assert abs(roi.height - roi.width) <= 1
    assert roi.height < 80


def test_a_still_film_is_refused_with_what_to_do() -> None:
    with pytest.raises(SpecError, match="move the arm through the task"):
        propose_roi(film([(40, 60, 50, 70)] * 5), aspect=1.0)


@pytest.mark.parametrize(
    "frames", [[], film([(1, 1, 9, 9)]), [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]]
)
def test_frames_that_do_not_belong_together_are_refused(frames) -> None:
    with pytest.raises(SpecError, match="at least two of one size"):
        propose_roi(frames, aspect=1.0)


@given(
    top=st.floats(0, 99), left=st.floats(0, 149), high=st.floats(1, 100), wide=st.floats(1, 150),
    aspect=st.floats(0.3, 3.0), margin=st.floats(0, 1),
)  # fmt: skip
def test_a_fitted_box_is_inside_the_image_and_has_the_shape(top, left, high, wide, aspect, margin) -> None:
    roi = fitted(top, left, min(100, top + high), min(150, left + wide), (100, 150), aspect, margin)
    assert roi.top >= 0
    assert roi.left >= 0
    assert roi.top + roi.height <= 100
    assert roi.left + roi.width <= 150
    assert abs(roi.width - aspect * roi.height) <= 1 + aspect


def test_a_box_of_a_small_image_is_the_same_part_of_the_large_one() -> None:
    roi = scaled(Roi(top=10, left=20, height=50, width=60), (100, 120), (1000, 1200))
    assert roi == Roi(top=100, left=200, height=500, width=600)
    whole = scaled(Roi(top=0, left=0, height=100, width=120), (100, 120), (1001, 1199))
    assert whole == Roi(top=0, left=0, height=1001, width=1199)
