"""Shapes of a scene, as a simulator or a robot's description has them, for whoever draws them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class ShapeKind(StrEnum):
    """The kinds of shapes, each with the entries of its size in m."""

    BOX = "box"
    """Half of its lengths along x, y and z."""
    SPHERE = "sphere"
    """Radius."""
    CYLINDER = "cylinder"
    """Radius, and half of its length along z."""
    CAPSULE = "capsule"
    """Radius, and half of the length along z between the middles of its ends."""
    MESH = "mesh"
    """Nothing: its corners say it."""
    FILE = "file"
    """Scale along x, y and z of a mesh in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One shape, fixed to a frame.

    Attributes:
        name: Its own.
        frame: That it is fixed to.
        kind: What it is.
        size: As its kind says, in m.
        pose: In its frame, shape (4, 4).
        rgba: Colour and opacity in [0, 1].
        corners: Of a mesh, m, float32, shape (V, 3).
        faces: Of a mesh, indices of corners, shape (F, 3).
        path: Of a file.
    """

    name: str
    frame: str
    kind: ShapeKind
    size: tuple[float, ...]
    pose: np.ndarray
    rgba: tuple[float, float, float, float]
    corners: np.ndarray | None = None
    faces: np.ndarray | None = None
    path: str = ""
