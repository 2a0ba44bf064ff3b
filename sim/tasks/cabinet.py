"""A cabinet with one drawer, made of boxes: the drawer slides along x of the cabinet, and is pulled by a bar."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

HALF_LENGTH_M, HALF_WIDTH_M = 0.034, 0.040
"""Of the inside of the drawer, along and across its way."""
RIM_M, WALL_M, FLOOR_M = 0.016, 0.005, 0.003
"""Height of the drawer's walls, their thickness, and the height of its floor above the table."""
FRONT_M, FRONT_HALF_WIDTH_M, FRONT_TOP_M = 0.008, 0.058, 0.035
"""Thickness of the drawer's front, half its width, which covers the face of the cabinet, and its upper edge."""
HANDLE_M, HANDLE_HALF_THICKNESS_M = 0.032, 0.008
"""Length of the bar that stands out of the front, and half its thickness."""
HANDLE_Z_M, HANDLE_HALF_HEIGHT_M = 0.028, 0.009
COVER_M, TOP_M = 0.041, 0.045
"""Lower and upper side of the top of the cabinet."""
PLAY_M = 0.002
"""Between the drawer and the cabinet around it, on each side."""
BLUE, LIGHT_BLUE = (0.16, 0.30, 0.62, 1.0), (0.38, 0.52, 0.80, 1.0)
CREAM, YELLOW = (0.93, 0.90, 0.80, 1.0), (0.95, 0.80, 0.15, 1.0)
DAMPING_NS_M = 6.0
"""Of the drawer's motion."""
HANDLE_MASS_KG, DRAWER_MASS_KG = 0.03, 0.25


def add_cabinet(spec: mujoco.MjSpec, centre_m: Sequence[float], *, travel_m: float, friction_n: float) -> None:
    """Add a body `cabinet`, which `data.mocap_pos` moves, with a body `drawer` on a sliding joint of that name.

    The origin of the cabinet is under the middle of its face, x out of it; the drawer's is under the middle of its
    inside.

    Args:
        spec: Gets them.
        centre_m: Where the cabinet stands, x and y.
        travel_m: How far the drawer slides, from closed at 0.
        friction_n: Of the joint.
    """
    cabinet = spec.worldbody.add_body(name="cabinet", mocap=True, pos=[*centre_m, 0.0])
    depth = 2 * (HALF_LENGTH_M + WALL_M) + PLAY_M
    inside = HALF_WIDTH_M + WALL_M + PLAY_M
    for name, position, size in (
        ("left", [-depth / 2, inside + WALL_M / 2, TOP_M / 2], [depth / 2, WALL_M / 2, TOP_M / 2]),
        ("right", [-depth / 2, -inside - WALL_M / 2, TOP_M / 2], [depth / 2, WALL_M / 2, TOP_M / 2]),
        ("back", [-depth - WALL_M / 2, 0, TOP_M / 2], [WALL_M / 2, inside + WALL_M, TOP_M / 2]),
        ("top", [-depth / 2, 0, (COVER_M + TOP_M) / 2], [depth / 2, inside, (TOP_M - COVER_M) / 2]),
    ):
        _add_box(cabinet, f"cabinet_{name}", position, size, BLUE)
    drawer = cabinet.add_body(name="drawer", pos=[-HALF_LENGTH_M, 0, 0])
    drawer.add_joint(
        name="drawer",
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=[1, 0, 0],
        range=[0.0, travel_m],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE,
        frictionloss=friction_n,
        damping=DAMPING_NS_M,
    )
    length, width = HALF_LENGTH_M, HALF_WIDTH_M
    front = [length + FRONT_M / 2, 0, (FLOOR_M + FRONT_TOP_M) / 2]
    mass = DRAWER_MASS_KG / 5
    for name, position, size, rgba in (
        ("floor", [0, 0, FLOOR_M - 0.001], [length, width, 0.001], CREAM),
        ("back", [-length - WALL_M / 2, 0, RIM_M / 2], [WALL_M / 2, width + WALL_M, RIM_M / 2 - 0.001], CREAM),
        ("left", [0, width + WALL_M / 2, RIM_M / 2], [length, WALL_M / 2, RIM_M / 2 - 0.001], CREAM),
        ("right", [0, -width - WALL_M / 2, RIM_M / 2], [length, WALL_M / 2, RIM_M / 2 - 0.001], CREAM),
        ("front", front, [FRONT_M / 2, FRONT_HALF_WIDTH_M, (FRONT_TOP_M - FLOOR_M) / 2], LIGHT_BLUE),
    ):
        _add_box(drawer, f"drawer_{name}", position, size, rgba, mass=mass)
    bar = [length + FRONT_M + HANDLE_M / 2, 0, HANDLE_Z_M]
    size = [HANDLE_M / 2, HANDLE_HALF_THICKNESS_M, HANDLE_HALF_HEIGHT_M]
    _add_box(drawer, "handle", bar, size, YELLOW, mass=HANDLE_MASS_KG)
    spec.add_exclude(bodyname1="cabinet", bodyname2="drawer")  # the joint guides it, not the walls


def _add_box(
    body: mujoco.MjsBody,
    name: str,
    position: Sequence[float],
    size: Sequence[float],
    rgba: tuple[float, float, float, float],
    *,
    mass: float = 0.0,
) -> None:
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=list(position),
        size=list(size),
        mass=mass,
        rgba=list(rgba),
        contype=3,
        conaffinity=3,
        condim=4,
        friction=[0.5, 0.005, 0.0001],
    )
