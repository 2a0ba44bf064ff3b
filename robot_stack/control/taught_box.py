"""A workspace box around the positions to which an operator moved the TCP."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from robot_stack.types.errors import SpecError

Corner = tuple[float, float, float]
LEAST_M = 0.02
"""A thinner box leaves no room for a motion."""
GRID = 1000.0
"""Corners are rounded to millimetres, outwards."""


def box_of(positions_m: Sequence[np.ndarray], margin_m: float = 0.0) -> tuple[Corner, Corner]:
    """Return the lower and upper corner of the box that holds every position, rounded outwards to millimetres.

    Args:
        positions_m: Positions of the TCP in the base frame, each of shape (3,).
        margin_m: Added on every side.

    Raises:
        SpecError: If the TCP was not moved far enough along each axis.
    """
    if not len(positions_m):
        raise SpecError("no position was seen, must be some; is the robot process running?")
    points = np.stack(list(positions_m))
    low, high = points.min(axis=0) - margin_m, points.max(axis=0) + margin_m
    for axis, size in zip("xyz", high - low, strict=True):
        if size < LEAST_M:
            raise SpecError(
                f"TCP moved {size * 1e3:.0f} mm along {axis}, must be {LEAST_M * 1e3:.0f} mm at least; "
                "move it to every end of the workspace"
            )
    lower = tuple(math.floor(round(value * GRID, 6)) / GRID for value in low)
    upper = tuple(math.ceil(round(value * GRID, 6)) / GRID for value in high)
    return (lower[0], lower[1], lower[2]), (upper[0], upper[1], upper[2])
