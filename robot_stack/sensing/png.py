"""The encoding of images as PNG, without loss."""

from __future__ import annotations

import cv2
import numpy as np


def png_of(image: np.ndarray) -> bytes:
    """Return the PNG file of an RGB image, uint8, shape (H, W, 3)."""
    _, encoded = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    return encoded.tobytes()
