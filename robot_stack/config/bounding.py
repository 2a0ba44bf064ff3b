"""Shapes that bound others: capsules around a link's geometry, and boxes, of which two must not meet.

A capsule is a line with a radius that leaves nothing of a link out. Boxes stand turned in the cell, and the distance
between two of them is what keeps two arms from meeting.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from robot_stack.types.pose import Pose

AROUND = 16
"""Points taken of a circle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hull:
    """A capsule in some frame: ends of its line, each (3,), and its radius in metres."""

    start_m: np.ndarray
    end_m: np.ndarray
    radius_m: float

    def moved(self, transform: np.ndarray) -> Hull:
        """Return the capsule in another frame.

        Args:
            transform: T_other_this, shape (4, 4).
        """
        rotation, shift = transform[:3, :3], transform[:3, 3]
        return Hull(
            start_m=rotation @ self.start_m + shift, end_m=rotation @ self.end_m + shift, radius_m=self.radius_m
        )


def hull_of_points(points: np.ndarray) -> Hull:
    """Bound points by a capsule along the direction in which they reach furthest; not always the smallest.

    Args:
        points: Shape (N, 3), metres.
    """
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    hulls = [_along(points, direction) for direction in directions]
    return min(hulls, key=_volume)


def hull_of_box(half_m: np.ndarray) -> Hull:
    """Bound a box about the origin, given half its edges, shape (3,)."""
    corners = np.array(list(product((-1.0, 1.0), repeat=3))) * half_m
    return min((_along(corners, axis) for axis in np.eye(3)), key=_volume)


def hull_of_cylinder(radius_m: float, half_length_m: float) -> Hull:
    """Bound a cylinder about the origin along z: its own axis where it is long, else a flat one's rim."""
    angles = np.arange(AROUND) * (2.0 * np.pi / AROUND)
    outer = radius_m / np.cos(np.pi / AROUND)  # a polygon around the circle, not within it
    rim = np.stack([outer * np.cos(angles), outer * np.sin(angles), np.full(AROUND, half_length_m)], axis=1)
    flat = hull_of_points(np.concatenate([rim, rim * (1.0, 1.0, -1.0)]))
    ends = np.array([0.0, 0.0, half_length_m])
    upright = Hull(start_m=-ends, end_m=ends, radius_m=radius_m)
    return min(upright, flat, key=_volume)


def _along(points: np.ndarray, direction: np.ndarray) -> Hull:
    """Return the capsule along a direction, with its line in the middle of the points' extent across it."""
    across = np.linalg.svd(direction[None])[2][1:]
    flat = points @ across.T
    centre = (flat.max(axis=0) + flat.min(axis=0)) / 2.0
    beside = np.linalg.norm(flat - centre, axis=1)
    radius_m = float(beside.max())
    reach = np.sqrt(np.maximum(radius_m**2 - beside**2, 0.0))  # the round end covers that much beyond the line's end
    heights = points @ direction
    low, high = float((heights + reach).min()), float((heights - reach).max())
    if low > high:
        low = high = (low + high) / 2.0
    foot = centre @ across
    return Hull(start_m=foot + low * direction, end_m=foot + high * direction, radius_m=radius_m)


def _volume(hull: Hull) -> float:
    length = float(np.linalg.norm(hull.end_m - hull.start_m))
    return np.pi * hull.radius_m**2 * (length + 4.0 / 3.0 * hull.radius_m)


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
        return np.asarray(self.pose.position_m + self.pose.rotation.apply(middle))

    @property
    def half_edges_m(self) -> np.ndarray:
        """Return the three directions of the edges in the cell, each half an edge long, shape (3, 3), row by row."""
        return np.asarray(self.pose.rotation.apply(np.diag((self.high_m - self.low_m) / 2)))


def gap_m(one: Box, other: Box) -> float:
    """Return the distance between two boxes, negative where they overlap.

    The widest gap along the 15 directions of the separating axis theorem (Gottschalk et al., 1996, "OBBTree"): the
    normals of both and the cross products of their edges. Where corner faces corner the true distance is a little more.

    >>> def unit(x):
    ...     where = Pose.from_rotation(np.array([x, 0.0, 0.0]), Pose.identity().rotation)
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
