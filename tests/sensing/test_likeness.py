"""Two cameras that were swapped, by what they show."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from robot_stack.sensing.likeness import MARGIN, likeness, read_reference, swapped_with, thumbnail
from robot_stack.types.errors import ConfigError

thumbnails = hnp.arrays(np.uint8, (48, 64, 3))


def scene(seed: int) -> np.ndarray:
    """Coloured blocks on a plain ground, 480x640."""
    rng = np.random.default_rng(seed)
    image = np.full((480, 640, 3), rng.integers(40, 216, 3), np.uint8)
    for _ in range(8):
        top, left = rng.integers(0, 400), rng.integers(0, 560)
        image[top : top + 80, left : left + 80] = rng.integers(0, 256, 3)
    return image


def seen_again(image: np.ndarray, seed: int) -> np.ndarray:
    """Darker, noisy, with something new in it."""
    rng = np.random.default_rng(seed)
    noisy = 0.85 * image + rng.normal(0, 4, image.shape)
    noisy[200:300, 300:380] = 128
    return noisy.clip(0, 255).astype(np.uint8)


@pytest.mark.long
@given(thumbnails, thumbnails)
def test_likeness_is_symmetric_and_a_share(one: np.ndarray, other: np.ndarray) -> None:
    score = likeness(one, other)
    assert 0.0 <= score <= 1.0 + 1e-9
    assert score == pytest.approx(likeness(other, one))


@pytest.mark.parametrize("seed", range(8))
def test_a_view_is_most_like_itself(seed: int) -> None:
    view, other = thumbnail(scene(seed)), thumbnail(scene(seed + 100))
    assert likeness(view, view) == pytest.approx(1.0)
    again = thumbnail(seen_again(scene(seed), seed))
    assert likeness(again, view) > likeness(again, other) + MARGIN


def test_swapped_cameras_name_each_other_and_others_do_not() -> None:
    kept = {"wrist": thumbnail(scene(1)), "front": thumbnail(scene(2))}

    def answer(camera: str, shown: str) -> str:
        now = thumbnail(seen_again(scene(1 if shown == "wrist" else 2), 3))
        return swapped_with({name: likeness(now, view) for name, view in kept.items()}, camera)

    assert answer("wrist", "front") == "front"
    assert answer("front", "wrist") == "wrist"
    assert answer("wrist", "wrist") == answer("front", "front") == ""


@pytest.mark.parametrize(
    ("scores", "other"),
    [
        ({"wrist": 0.5, "front": 0.64}, ""),
        ({"wrist": 0.5, "front": 0.66}, "front"),
        ({"front": 0.9}, ""),
        ({"wrist": 0.1}, ""),
        ({"wrist": 0.2, "front": 0.5, "side": 0.9}, "side"),
    ],
)
def test_a_word_is_said_only_when_another_view_fits_clearly_better(scores: dict[str, float], other: str) -> None:
    assert swapped_with(scores, "wrist") == other


def test_an_even_image_is_like_nothing_by_its_places() -> None:
    flat = np.full((48, 64, 3), 99, np.uint8)
    assert likeness(flat, flat) == pytest.approx(0.5)


def test_a_kept_view_is_read_back_exactly(tmp_path: Path) -> None:
    view, path = thumbnail(scene(4)), str(tmp_path / "wrist_view.png")
    cv2.imwrite(path, cv2.cvtColor(view, cv2.COLOR_RGB2BGR))
    np.testing.assert_array_equal(read_reference("wrist", path), view)


def test_a_reference_that_is_none_is_refused_with_its_camera(tmp_path: Path) -> None:
    path = str(tmp_path / "x.png")
    with pytest.raises(ConfigError, match=r"reference of camera wrist is .*, must be an image of 64x48 pixels"):
        read_reference("wrist", path)
    cv2.imwrite(path, np.zeros((10, 10, 3), np.uint8))
    with pytest.raises(ConfigError, match="must be an image of 64x48"):
        read_reference("wrist", path)
