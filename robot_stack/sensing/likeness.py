"""A check that a camera shows its own view, not that of its neighbour, whose cable or topic it may have got.

Of each camera of a cell a small picture of its view is kept. When a camera is opened, its first picture is compared
with all of them. A scene changes, and the camera on the hand moves: so the answer is a warning with its scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from robot_stack.types.errors import ConfigError

HEIGHT_PX, WIDTH_PX = 48, 64
LEVELS = 4
"""Of each colour in a histogram."""
MARGIN = 0.15
"""Another view must fit better by this much before a word is said."""


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Shrink the whole view to a thumbnail, RGB uint8, shape (48, 64, 3).

    Args:
        image: RGB uint8, shape (H, W, 3).
    """
    small = cv2.resize(np.ascontiguousarray(image), (WIDTH_PX, HEIGHT_PX), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """Return how much two thumbnails look like each other, in [0, 1].

    The mean of two measures that fail on different things: the correlation of brightness, which knows where things are
    and no light level, and the share of colours that both have, which knows no places.
    """
    greys = [np.asarray(image, dtype=np.float64).mean(axis=2) for image in (one, other)]
    parts = [grey - grey.mean() for grey in greys]
    spread = float(np.sqrt((parts[0] ** 2).sum() * (parts[1] ** 2).sum()))
    alike = max(0.0, float((parts[0] * parts[1]).sum()) / spread) if spread > 0 else 0.0
    shared = float(np.minimum(_colours(one), _colours(other)).sum())
    return (alike + shared) / 2


def swapped_with(scores: Mapping[str, float], own: str) -> str:
    """Return the camera whose view this one clearly shows rather than its own; "" if none or its own is not kept."""
    others = {name: score for name, score in scores.items() if name != own}
    if own not in scores or not others:
        return ""
    best = max(others, key=lambda name: others[name])
    return best if others[best] >= scores[own] + MARGIN else ""


def read_reference(camera: str, path: str) -> np.ndarray:
    """Read the thumbnail that is kept of a camera's view.

    Raises:
        ConfigError: If it is no such image.
    """
    image = cv2.imread(str(Path(path).expanduser()), cv2.IMREAD_COLOR)
    if image is None or image.shape != (HEIGHT_PX, WIDTH_PX, 3):
        raise ConfigError(
            f"reference of camera {camera} is {path}, must be an image of {WIDTH_PX}x{HEIGHT_PX} pixels; make it with "
            "`robot-stack camera`"
        )
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _colours(image: np.ndarray) -> np.ndarray:
    """Return the share of each of 64 colours, shape (64,)."""
    index = (image.astype(np.int64) * LEVELS // 256) @ np.array([LEVELS * LEVELS, LEVELS, 1])
    return np.bincount(index.reshape(-1), minlength=LEVELS**3) / index.size
