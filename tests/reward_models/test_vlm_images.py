"""Images at the size a model wants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_models.vlm.images import Album, square, within
from robot_stack.types.errors import RewardError
from tests.reward_models.spoken import frame


def test_a_square_is_filled_by_the_whole_image() -> None:
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[:, 30:] = 255
    resized = square(448)(picture)
    assert resized.shape == (448, 448, 3)
    assert resized[:, 400:].min() == 255
    assert resized[:, :300].max() == 0


@given(height=st.integers(1, 700), width=st.integers(1, 700), patch=st.sampled_from([28, 32]))
def test_sides_are_whole_patches_and_the_area_is_within_bounds(height: int, width: int, patch: int) -> None:
    resized = within(min_pixels=12_544, max_pixels=76_800, multiple_px=patch)(np.zeros((height, width, 3), np.uint8))
    rows, columns = resized.shape[:2]
    assert rows % patch == columns % patch == 0
    if max(height, width) <= 20 * min(height, width):  # else one patch of height may be too much
        assert 12_544 <= rows * columns <= 76_800


@settings(deadline=None)  # the first example imports the processor
@given(height=st.integers(16, 600), width=st.integers(16, 600))
def test_it_is_the_size_that_the_processor_of_the_qwen_family_chooses(height: int, width: int) -> None:
    qwen = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    resized = within(min_pixels=12_544, max_pixels=76_800, multiple_px=28)(np.zeros((height, width, 3), np.uint8))
    assert resized.shape[:2] == qwen.smart_resize(height, width, 28, 12_544, 76_800)


def test_an_image_that_fits_is_not_touched() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (224, 280, 3), dtype=np.uint8)
    assert within(min_pixels=12_544, max_pixels=76_800, multiple_px=28)(picture) is picture


def test_an_album_resizes_each_image_once() -> None:
    calls = []
    album = Album(lambda picture: calls.append(1) or picture)  # type: ignore[func-returns-value]
    first = frame(0.5)
    for one in (first, frame(0.5), frame(0.5), first):
        album.image(one, "front")
    album.image(frame(0.6), "front")
    assert len(calls) == 2


def test_a_missing_view_is_named() -> None:
    with pytest.raises(RewardError, match="view wrist is missing"):
        Album(square(8)).image(frame(0.5), "wrist")
