"""A square hole with a lead-in, made of boxes, into which pegs go."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

THICKNESS_M = 0.001
"""Half the thickness of the slopes of the lead-in."""
Colour = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleShape:
    """The shape of a square hole, in metres.

    Attributes:
        side_m: Of the hole.
        wall_m: Thickness of the walls around it.
        height_m: How deep it is.
        chamfer_m: 45 degree lead-in at the rim.
    """

    side_m: float
    wall_m: float
    height_m: float
    chamfer_m: float


def add_hole(
    body: mujoco.MjsBody, name: str, shape: HoleShape, rgba: Colour, frame: mujoco.MjsFrame | None = None
) -> None:
    """Add four walls around a hole and its dark bottom; the walls are called NAME_<quarter>_<number>.

    Each wall has a low inner part, a rim set back by the chamfer, and the chamfer. The hole opens along z of the frame,
    its bottom at the origin.

    Args:
        body: That gets them.
        name: What their names begin with.
        shape: How large.
        rgba: Colour of the walls.
        frame: Of the body, in which they stand; default its own.
    """
    hole = shape.side_m / 2
    geoms = []
    for quarter in range(4):
        rotation = Rotation.from_euler("z", quarter * np.pi / 2)
        for index, (position, size, tilt) in enumerate(_wall(shape)):
            x, y, z, w = (rotation * Rotation.from_euler("y", tilt)).as_quat()
            geoms.append(
                body.add_geom(
                    name=f"{name}_{quarter}_{index}",
                    type=mujoco.mjtGeom.mjGEOM_BOX,
                    size=size,
                    pos=rotation.apply(position),
                    quat=[w, x, y, z],
                    rgba=list(rgba),
                    contype=1,
                    conaffinity=1,
                    friction=[0.3, 0.005, 0.0001],
                )
            )
    geoms.append(
        body.add_geom(  # the bottom, dark, so that the hole reads as a hole
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[hole, hole, 0.0005],
            pos=[0, 0, 0.0008],
            rgba=[0.05, 0.05, 0.06, 1.0],
            contype=0,
            conaffinity=0,
        )
    )
    if frame is not None:
        for geom in geoms:
            geom.set_frame(frame)


def _wall(shape: HoleShape) -> list[tuple[list[float], list[float], float]]:
    """Return position, half size and tilt of the boxes of the wall towards x."""
    hole, wall, height, chamfer = shape.side_m / 2, shape.wall_m, shape.height_m, shape.chamfer_m
    boxes = [([hole + wall / 2, 0, (height - chamfer) / 2], [wall / 2, hole + wall, (height - chamfer) / 2], 0.0)]
    if chamfer > 0:
        outer = wall - chamfer
        slope = chamfer * np.sqrt(2) / 2
        inward = THICKNESS_M / np.sqrt(2)
        boxes += [
            ([hole + chamfer + outer / 2, 0, height - chamfer / 2], [outer / 2, hole + wall, chamfer / 2], 0.0),
            (
                [hole + chamfer / 2 + inward, 0, height - chamfer / 2 - inward],
                [slope, hole + chamfer / 2, THICKNESS_M],
                -np.pi / 4,
            ),
        ]
    return boxes
