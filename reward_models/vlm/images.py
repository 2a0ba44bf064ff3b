"""Images at the size a model wants, each resized once in a batch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image

from reward_models.interface import Frame

Resize = Callable[[np.ndarray], np.ndarray]


def square(side_px: int) -> Resize:
    """Make a resize that squeezes an image to a square with Lanczos' filter."""

    def resize(image: np.ndarray) -> np.ndarray:
        return _resized(image, side_px, side_px, Image.Resampling.LANCZOS)

    return resize


def within(*, min_pixels: int, max_pixels: int, multiple_px: int) -> Resize:
    """Make a resize to sides that are multiples of a model's patch, with an area between two bounds.

    The shape is kept as far as can be.

    It is the size that the processors of the Qwen-VL family choose, so that theirs has nothing left to do, in this
    process or on a server whose bounds are wider.
    """

    def resize(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        rows, columns = (max(1, round(side / multiple_px)) * multiple_px for side in (height, width))
        if rows * columns > max_pixels:
            shrink = math.sqrt(height * width / max_pixels)
            rows, columns = (max(1, math.floor(side / shrink / multiple_px)) * multiple_px for side in (height, width))
        elif rows * columns < min_pixels:
            grow = math.sqrt(min_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / multiple_px) * multiple_px for side in (height, width))
        return _resized(image, rows, columns, Image.Resampling.BICUBIC)

    return resize


class Album:
    """A cache of images of frames, resized when they are first asked for.

    It lives for one batch: references repeat within it.
    """

    def __init__(self, resize: Resize) -> None:
        self._resize = resize
        self._images: dict[tuple[str, str], np.ndarray] = {}

    def image(self, frame: Frame, view: str) -> np.ndarray:
        """Return the resized image of a view, uint8 RGB, shape (H, W, 3).

        Raises:
            RewardError: If the frame does not show the view.
        """
        key = (frame.key, view)
        if key not in self._images:
            self._images[key] = self._resize(frame.view(view))
        return self._images[key]


def _resized(image: np.ndarray, rows: int, columns: int, how: Image.Resampling) -> np.ndarray:
    if image.shape[:2] == (rows, columns):
        return image
    return np.asarray(Image.fromarray(np.ascontiguousarray(image)).resize((columns, rows), how))
