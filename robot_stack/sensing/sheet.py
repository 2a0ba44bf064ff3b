"""One picture to choose a camera's crop by: all that it sees with the kept part framed, and what the policy gets."""

from __future__ import annotations

import cv2
import numpy as np

from robot_stack.sensing.crop import Roi
from robot_stack.types.errors import RobotError, StoreError

LINES = 8
"""A grid of so many cells each way, with their pixel numbers."""
GREY, YELLOW = (160, 160, 160), (255, 220, 0)


def sheet(captured: np.ndarray, roi: Roi | None, policy: np.ndarray) -> np.ndarray:
    """Draw the captured and the policy's image side by side, RGB uint8, as high as the captured one.

    Args:
        captured: All of the camera's image, as it is seen, RGB uint8, shape (H, W, 3).
        roi: Part that is kept, or None for all.
        policy: The policy's image, RGB uint8.
    """
    rows, columns = captured.shape[:2]
    drawn = captured.copy()
    for k in range(1, LINES):
        row, column = rows * k // LINES, columns * k // LINES
        cv2.line(drawn, (0, row), (columns, row), GREY, 1)
        cv2.line(drawn, (column, 0), (column, rows), GREY, 1)
        cv2.putText(drawn, str(row), (2, row - 2), cv2.FONT_HERSHEY_PLAIN, 0.8, YELLOW)
        cv2.putText(drawn, str(column), (column + 2, 10), cv2.FONT_HERSHEY_PLAIN, 0.8, YELLOW)
    kept = roi or Roi(top=0, left=0, height=rows, width=columns)
    corner = (kept.left + kept.width - 1, kept.top + kept.height - 1)
    cv2.rectangle(drawn, (kept.left, kept.top), corner, YELLOW, 2)
    width = max(1, round(rows * policy.shape[1] / policy.shape[0]))
    enlarged = cv2.resize(policy, (width, rows), interpolation=cv2.INTER_NEAREST)
    return np.concatenate([drawn, np.asarray(enlarged, dtype=np.uint8)], axis=1)


def read_rgb(path: str) -> np.ndarray:
    """Read an image file as RGB uint8, shape (H, W, 3).

    Raises:
        RobotError: If it is none.
    """
    image = cv2.imread(path, cv2.IMREAD_COLOR)
    if image is None:
        raise RobotError(f"picture {path} cannot be read, must be an image; take it again")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def write_rgb(path: str, image: np.ndarray) -> None:
    """Write an RGB image to a file.

    Raises:
        StoreError: If it cannot be written.
    """
    if not cv2.imwrite(path, cv2.cvtColor(image, cv2.COLOR_RGB2BGR)):
        raise StoreError(f"{path} cannot be written; free the disk, or name a folder that there is")
