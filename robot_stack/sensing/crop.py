"""The crop and resize that make the policy's image of a captured one. The only place that crops or resizes."""

from __future__ import annotations

from collections.abc import Sequence
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


CHANGED = 24
"""Difference of brightness, of 255, that is a motion and no noise."""
OUTLIERS = 1.0
"""Per cent of moving pixels left out at each side: a flicker somewhere is no reason to keep the whole image."""
LEAST_SHARE = 0.002
"""Of the pixels that must have moved."""


def propose_roi(frames: Sequence[np.ndarray], *, aspect: float, margin: float = 0.15) -> Roi:
    """Propose a box around everything that moved, widened, in the shape of the policy's image.

    Args:
        frames: Of one camera that stood still, RGB uint8, shape (H, W, 3), at least two.
        aspect: Width over height of the policy's image.
        margin: Added on every side, as a share of the box.

    Raises:
        SpecError: If nothing moved, or the frames do not belong together.
    """
    if len(frames) < 2 or len({frame.shape for frame in frames}) != 1:
        raise SpecError(f"{len(frames)} frames, must be at least two of one size; take them from one camera")
    grey = np.stack([frame.mean(axis=2) for frame in frames])
    rows, columns = np.nonzero(np.ptp(grey, axis=0) > CHANGED)
    height, width = grey.shape[1:]
    if len(rows) < LEAST_SHARE * height * width:
        share, least = len(rows) / (height * width), LEAST_SHARE
        raise SpecError(f"{share:.2%} of the image moved, must be {least:.1%} at least; move the arm through the task")
    top, bottom = np.percentile(rows, [OUTLIERS, 100 - OUTLIERS])
    left, right = np.percentile(columns, [OUTLIERS, 100 - OUTLIERS])
    return fitted(float(top), float(left), float(bottom) + 1, float(right) + 1, (height, width), aspect, margin)


def fitted(
    top: float, left: float, bottom: float, right: float, image: tuple[int, int], aspect: float, margin: float
) -> Roi:
    """Fit the smallest box of a shape around another, inside the image; as large as that allows where it does not fit.

    Args:
        top: First row.
        left: First column.
        bottom: Row behind the last one.
        right: Column behind the last one.
        image: Rows and columns.
        aspect: Width over height.
        margin: Added on every side, as a share of the box.
    """
    high, wide = (bottom - top) * (1 + 2 * margin), (right - left) * (1 + 2 * margin)
    high, wide = max(high, wide / aspect), max(wide, high * aspect)
    shrink = min(1.0, image[0] / high, image[1] / wide)
    height, width = max(1, int(high * shrink)), max(1, int(wide * shrink))
    first_row = round((top + bottom - height) / 2)
    first_column = round((left + right - width) / 2)
    return Roi(
        top=min(max(0, first_row), image[0] - height),
        left=min(max(0, first_column), image[1] - width),
        height=height,
        width=width,
    )


def scaled(roi: Roi, shown: tuple[int, int], captured: tuple[int, int]) -> Roi:
    """Convert a box in a shown image to pixels of the captured one that it was made smaller from.

    Args:
        roi: In the shown image.
        shown: Its rows and columns.
        captured: Rows and columns of the other.
    """
    by_row, by_column = captured[0] / shown[0], captured[1] / shown[1]
    top, left = int(roi.top * by_row), int(roi.left * by_column)
    return Roi(
        top=top,
        left=left,
        height=min(round(roi.height * by_row), captured[0] - top),
        width=min(round(roi.width * by_column), captured[1] - left),
    )
