"""Capsules around shapes: a link's collision geometry as a line with a radius that leaves none of it out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

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
