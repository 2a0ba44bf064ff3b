"""The crop and resize that make the policy's image of a captured one. The only place that crops or resizes."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from robot_stack.types.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Roi:
    """The part of an image that is kept, in pixels: rows top to top+height, columns left to left+width."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        if self.top < 0 or self.left < 0 or self.height < 1 or self.width < 1:
            raise SpecError(f"roi is {self}, must start at 0 or later and keep at least one pixel")


def crop(image: np.ndarray, roi: Roi) -> np.ndarray:
    """Return the pixels inside `roi`, a view, shape (roi.height, roi.width, 3).

    Raises:
        SpecError: If the roi does not lie inside the image: a shifted crop would train on other pixels in silence.
    """
    bottom, right = roi.top + roi.height, roi.left + roi.width
    rows, columns = image.shape[:2]
    if bottom > rows or right > columns:
        raise SpecError(
            f"roi ends at row {bottom} and column {right}, must be within {rows} rows and {columns} columns; "
            "check the capture size of the camera"
        )
    return image[roi.top : bottom, roi.left : right]


def crop_and_resize(image: np.ndarray, roi: Roi | None, height_px: int, width_px: int) -> np.ndarray:
    """Make the policy's image: crop, then resize; an image that already fits is only copied.

    Args:
        image: RGB uint8, shape (H, W, 3).
        roi: Kept part, or None for all of it.
        height_px: Rows of the result.
        width_px: Columns of the result.

    Returns:
        RGB uint8, shape (height_px, width_px, 3), contiguous, never a view of `image`.

    Raises:
        SpecError: If the image is no RGB uint8 image or the roi does not fit.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise SpecError(f"image is {image.dtype} {image.shape}, must be uint8 (H, W, 3)")
    kept = image if roi is None else crop(image, roi)
    if kept.shape[:2] == (height_px, width_px):
        return kept.copy()
    shrinks = height_px <= kept.shape[0] and width_px <= kept.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(np.ascontiguousarray(kept), (width_px, height_px), interpolation=method)
    return np.asarray(resized, dtype=np.uint8)
