"""Thumbnails of an episode: its first and last frame as a small PNG, one camera beside the other."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

SIDE_PX = 96
GAP_PX = 2


def strip(first: Sequence[np.ndarray], last: Sequence[np.ndarray]) -> np.ndarray:
    """Return the first, then the last frame of every camera in a row, uint8, shape (<= SIDE_PX, w, 3), RGB."""
    shown = [fit(image) for image in (*first, *last)]
    height = max(image.shape[0] for image in shown)
    padded = []
    for number, image in enumerate(shown):
        gap = GAP_PX if number == 0 else 3 * GAP_PX if number == len(first) else GAP_PX
        below = height - image.shape[0]
        padded.append(np.pad(image, ((0, below), (0 if number == 0 else gap, 0), (0, 0)), constant_values=255))
    return np.concatenate(padded, axis=1)


def png(image: np.ndarray) -> bytes:
    """Encode an image, uint8, shape (h, w, 3), as PNG."""
    content = io.BytesIO()
    Image.fromarray(image).save(content, format="png")
    return content.getvalue()


def fit(image: np.ndarray) -> np.ndarray:
    """Shrink an image to every n-th pixel, so that its longer side is at most SIDE_PX."""
    stride = -(-max(image.shape[:2]) // SIDE_PX)
    return image[::stride, ::stride]
