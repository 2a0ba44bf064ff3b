"""The distance between boxes that stand turned in the cell: what keeps two arms from meeting."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from robot_stack.types.pose import Pose

PARALLEL = 3e-7
"""Edges whose cross product is shorter than this are parallel, and give no direction of their own: what is left of it
after rounding would be any direction, and another one wherever the cell is turned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box in a frame of its own.

    Attributes:
        pose: Of that frame in the cell.
        low_m: Lowest corner in it, shape (3,).
        high_m: Highest corner.
    """

    pose: Pose
    low_m: np.ndarray
    high_m: np.ndarray

    @property
    def centre_m(self) -> np.ndarray:
        """Return the centre of the box in the cell, shape (3,)."""
        middle = (self.low_m + self.high_m) / 2
        return np.asarray(self.pose.position_m + self.pose.matrix @ middle)

    @property
    def half_edges_m(self) -> np.ndarray:
        """Return the three directions of the edges in the cell, each half an edge long, shape (3, 3), row by row."""
        return np.asarray(np.diag((self.high_m - self.low_m) / 2) @ self.pose.matrix.T)


def gap_m(one: Box, other: Box) -> float:
    """Return the distance between two boxes, negative where they overlap.

    The widest gap along the 15 directions of the separating axis theorem (Gottschalk et al., 1996, "OBBTree"): the
    normals of both and the cross products of their edges. Where corner faces corner the true distance is a little more.

    >>> def unit(x):
    ...     where = Pose.from_rpy(np.array([x, 0.0, 0.0]), np.zeros(3))
    ...     return Box(pose=where, low_m=np.zeros(3), high_m=np.ones(3))
    >>> gap_m(unit(0.0), unit(1.5)), gap_m(unit(0.0), unit(0.25))
    (0.5, -0.75)
    """
    a, b = one.half_edges_m, other.half_edges_m
    between = other.centre_m - one.centre_m
    directions = [*a, *b, *(np.cross(i, j) for i, j in product(_units(a), _units(b)))]
    widest = -np.inf
    for direction in directions:
        length = float(np.linalg.norm(direction))
        if length < PARALLEL:
            continue
        axis = direction / length
        reach = float(np.abs(a @ axis).sum() + np.abs(b @ axis).sum())
        widest = max(widest, abs(float(between @ axis)) - reach)
    return float(widest)


def _units(edges: np.ndarray) -> np.ndarray:
    return np.asarray(edges / np.linalg.norm(edges, axis=1, keepdims=True))
