"""Crop and resize, exact to the pixel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.sensing.crop import Roi, crop_and_resize
from robot_stack.types.errors import SpecError


def numbered(rows: int, columns: int) -> np.ndarray:
    """An image whose pixel (r, c) reads (r, c, 7)."""
    image = np.full((rows, columns, 3), 7, dtype=np.uint8)
    image[..., 0], image[..., 1] = np.arange(rows)[:, None], np.arange(columns)[None, :]
    return image


@given(st.integers(0, 20), st.integers(0, 30), st.integers(1, 40), st.integers(1, 50))
def test_a_crop_without_resize_keeps_exactly_its_pixels(top, left, height, width):
    image = numbered(60, 80)
    kept = crop_and_resize(image, Roi(top=top, left=left, height=height, width=width), height, width)
    np.testing.assert_array_equal(kept, image[top : top + height, left : left + width])


def test_halving_averages_each_block_of_four():
    image = np.random.default_rng(0).integers(0, 256, (8, 12, 3)).astype(np.uint8)
    half = crop_and_resize(image, None, 4, 6)
    blocks = image.reshape(4, 2, 6, 2, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(half, blocks, atol=0.51)


def test_enlarging_keeps_a_flat_image_flat():
    assert (crop_and_resize(np.full((4, 4, 3), 99, np.uint8), None, 16, 16) == 99).all()


@pytest.mark.parametrize("size", [(10, 10), (5, 5)])
def test_the_result_shares_no_memory_with_the_capture(size: tuple[int, int]):
    image = numbered(10, 10)
    result = crop_and_resize(image, None, *size)
    assert not np.shares_memory(result, image)
    assert result.flags.c_contiguous


@pytest.mark.parametrize("roi", [Roi(top=5, left=0, height=6, width=4), Roi(top=0, left=9, height=1, width=2)])
def test_a_roi_beyond_the_image_is_refused(roi: Roi):
    with pytest.raises(SpecError, match="roi ends at row"):
        crop_and_resize(numbered(10, 10), roi, 4, 4)


@pytest.mark.parametrize("fields", [{"top": -1}, {"left": -1}, {"height": 0}, {"width": 0}])
def test_a_roi_keeps_at_least_a_pixel(fields: dict[str, int]):
    with pytest.raises(SpecError, match="roi is"):
        Roi(**{"top": 0, "left": 0, "height": 1, "width": 1, **fields})


@pytest.mark.parametrize("image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3))])
def test_only_rgb_uint8_is_an_image(image: np.ndarray):
    with pytest.raises(SpecError, match="uint8"):
        crop_and_resize(image, None, 4, 4)
