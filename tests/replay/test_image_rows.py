from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.replay import image_rows
from robot_stack.replay.image_rows import ImageRows
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from tests.examples import examples
from tests.replay.recorded import header_of, small_spec, steps_of

SHAPES = {"front": (9, 8, 3), "wrist": (8, 12, 3)}


def filled(count: int) -> tuple[ImageRows, dict[str, np.ndarray]]:
    rng, rows = np.random.default_rng(7), ImageRows(SHAPES)
    images = {name: rng.integers(0, 256, (count, *shape), np.uint8) for name, shape in SHAPES.items()}
    for row in range(count):
        rows.put(row, {name: images[name][row] for name in SHAPES})
    return rows, images


def padded_and_cropped(image: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The obvious way: repeat the edges outwards, cut out at another place."""
    pad = int(np.abs(shift).max(initial=0))
    wide = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="edge")
    top, left = pad + shift
    return np.asarray(wide[top : top + image.shape[0], left : left + image.shape[1]])


@pytest.mark.long
@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 7), st.integers(1, 40), st.integers(0, 2**32))
def test_shifted_images_are_padded_and_cropped_ones(most: int, batch: int, seed: int) -> None:
    rows, images = filled(5)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, 5, batch)
    shifts = {name: both[0] for name, both in rows.draw_shifts(rng, batch, most).items()}
    for name, found in rows.gather(chosen, shifts).items():
        wanted = np.stack([padded_and_cropped(images[name][r], s) for r, s in zip(chosen, shifts[name])])
        np.testing.assert_array_equal(found, wanted)


def test_unshifted_images_are_copies_in_the_order_asked_for() -> None:
    rows, images = filled(5)
    found = rows.gather(np.array([4, 0, 0, 2]))
    for name, kept in images.items():
        np.testing.assert_array_equal(found[name], kept[[4, 0, 0, 2]])
        assert found[name].flags.c_contiguous
        found[name][:] = 0
        np.testing.assert_array_equal(rows.gather(np.arange(5))[name], kept)


def test_shifts_are_uniform_and_independent_per_row_camera_and_side() -> None:
    rows, _ = filled(1)
    drawn = rows.draw_shifts(np.random.default_rng(0), 9000, 4)
    columns = np.concatenate([both.transpose(0, 2, 1).reshape(4, -1) for both in drawn.values()])
    for column in columns:
        assert np.bincount(column + 4, minlength=9).min() > 880
    assert np.abs(np.corrcoef(columns) - np.eye(8)).max() < 0.05


def test_growing_moves_no_image() -> None:
    rows = ImageRows({"front": (8, 8, 3)})
    rows.put(0, {"front": np.ones((8, 8, 3), np.uint8)})
    where = rows._flat["front"].ctypes.data
    for row in range(1, 3000):
        rows.put(row, {"front": np.zeros((8, 8, 3), np.uint8)})
    assert rows._flat["front"].ctypes.data == where
    assert rows.gather(np.array([0]))["front"].all()


def test_more_frames_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_rows, "_physical_bytes", lambda: 8 * 192)
    rows = ImageRows({"front": (8, 8, 3)})
    image = {"front": np.zeros((8, 8, 3), np.uint8)}
    for row in range(6):
        rows.put(row, image)
    with pytest.raises(StoreError, match="number of frames in memory is 7, must be at most 6 on this machine"):
        rows.put(6, image)


def test_address_space_that_is_refused_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_rows, "_physical_bytes", lambda: 2**50)
    with pytest.raises(StoreError, match=r"set vm\.overcommit_memory"):
        ImageRows(SHAPES)


def test_a_shift_moves_images_and_leaves_rows_and_rewards_alone() -> None:
    spec = small_spec()
    replay = Replay(spec)
    replay.begin(header_of("a"))
    rng = np.random.default_rng(3)
    for step in steps_of(spec, "a", [Source.POLICY] * 20):
        for image in step.observation.images.values():
            image[:] = rng.integers(0, 256, image.shape, np.uint8)
        replay.add_step(step)
    still, moved = (
        replay.sample(np.random.default_rng(0), 32, gamma=0.9, expert_fraction=0.0, shift=shift) for shift in (0, 3)
    )
    for name in ("frame", "reward", "proprio", "next_proprio", "action"):
        np.testing.assert_array_equal(getattr(still, name), getattr(moved, name))
    for name in ("images", "next_images"):
        for camera, images in getattr(still, name).items():
            assert not np.array_equal(images, getattr(moved, name)[camera])
