"""A cable of capsules on elastic ball joints, and the shape in which it hangs between two points."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import RobotError

DARK = (0.13, 0.13, 0.15, 1.0)
END = "cable_end"
"""The site at the free end."""
SPREAD = 200.0
"""Bound of how fast the slope of a hanging cable rises from link to link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CableShape:
    """The shape and the stiffness of a cable.

    Attributes:
        length_m: From its root to its free end.
        links: Number of rigid pieces.
        radius_m: Of its round section.
        kg_m: Mass per metre.
        bending_n_m2: Bending stiffness EI; a joint between two links of length l has EI / l newton metres per radian.
        damping_nms_rad: Of each joint.
    """

    length_m: float
    links: int
    radius_m: float
    kg_m: float
    bending_n_m2: float
    damping_nms_rad: float

    @property
    def link_m(self) -> float:
        """Return the length of a link, in metres."""
        return self.length_m / self.links


ARMATURE_KG_M2 = 2e-5
"""Added to the inertia of each joint: a light link on a stiff joint would swing faster than a time step resolves."""


def add_cable(parent: mujoco.MjsBody, root_m: tuple[float, float, float], shape: CableShape) -> None:
    """Add a cable that leaves a body along its -x; bodies and joints are called cable0, cable1, ..., its end `END`.

    It touches what has bit 1, as table and sockets do, but not itself.
    """
    body, at = parent, list(root_m)
    length, mass = shape.link_m, shape.kg_m * shape.link_m
    stiffness = shape.bending_n_m2 / length
    for number in range(shape.links):
        body = body.add_body(name=f"cable{number}", pos=at)
        body.add_joint(
            name=f"cable{number}",
            type=mujoco.mjtJoint.mjJNT_BALL,
            stiffness=[stiffness, 0.0, 0.0],
            damping=[shape.damping_nms_rad, 0.0, 0.0],
            armature=ARMATURE_KG_M2,
        )
        body.add_geom(
            name=f"cable{number}",
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[0, 0, 0, -length, 0, 0],
            size=[shape.radius_m, 0, 0],
            mass=mass,
            rgba=list(DARK),
            contype=1,
            conaffinity=0,
            friction=[0.3, 0.005, 0.0001],
        )
        at = [-length, 0.0, 0.0]
    body.add_site(name=END, pos=at, size=[shape.radius_m] * 3, rgba=list(DARK))


def hanging_links(way_m: np.ndarray, shape: CableShape) -> np.ndarray:
    r"""Return the directions of the links of a cable that hangs between two points, shape (links, 3), units of one.

    A chain of equal links hangs such that the slope rises by the same amount from link to link,
    :math:`\tan\theta_i = a + b\,i`, in the vertical plane through both points: the discrete catenary. `a` and `b` are
    those that end at the second point. Bending stiffness is left out, so that it is where a cable is let go, and not
    where it comes to rest.

    Args:
        way_m: From the root to the end, shape (3,).
        shape: Of the cable.

    Raises:
        RobotError: If the way is longer than the cable.
    """
    across = float(np.hypot(way_m[0], way_m[1]))
    rise, reach = float(way_m[2]), float(np.linalg.norm(way_m))
    if reach >= 0.995 * shape.length_m:
        raise RobotError(
            f"cable is {shape.length_m} m long, must be longer than the {reach:.3f} m from the plug to where it hangs; "
            "give it more length, or bring its hook nearer"
        )
    steps = np.arange(shape.links) - (shape.links - 1) / 2

    def angles(spread: float) -> np.ndarray:
        """Return the slopes [rad] that rise so fast and lead to the right height, shape (links,)."""
        most = spread * shape.links + 1e4

        def too_high(a: float) -> float:
            return float(np.sin(np.arctan(a + spread * steps)).sum()) * shape.link_m - rise

        return np.arctan(brentq(too_high, -most, most, xtol=1e-9) + spread * steps)

    def too_far(spread: float) -> float:
        return float(np.cos(angles(spread)).sum()) * shape.link_m - across

    slopes = angles(brentq(too_far, 0.0, SPREAD, xtol=1e-9) if too_far(SPREAD) < 0.0 else SPREAD)
    heading = way_m[:2] / across if across > 0.0 else np.array([1.0, 0.0])
    return np.column_stack([np.cos(slopes)[:, None] * heading, np.sin(slopes)])


def joint_turns(R_cell_parent: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the ball joints' quaternions, wxyz as MuJoCo has them, that give the links these directions; shape (N, 4).

    Each link is turned from the one before by the shortest way, so that nothing is twisted.

    Args:
        R_cell_parent: Of the body that the cable leaves along -x, shape (3, 3).
        directions: See `hanging_links`.
    """
    turned, quaternions = Rotation.from_matrix(R_cell_parent), []
    for direction in directions:
        wanted = turned.inv().apply(direction)
        turn = _shortest(np.array([-1.0, 0.0, 0.0]), wanted)
        x, y, z, w = turn.as_quat()
        quaternions.append([w, x, y, z])
        turned = turned * turn
    return np.array(quaternions)


def _shortest(one: np.ndarray, other: np.ndarray) -> Rotation:
    """Return the shortest turn of one unit vector onto another."""
    axis = np.cross(one, other)
    sine, cosine = float(np.linalg.norm(axis)), float(one @ other)
    if sine < 1e-9:
        return Rotation.from_rotvec([0.0, 0.0, 0.0 if cosine > 0 else np.pi])
    return Rotation.from_rotvec(axis / sine * np.arctan2(sine, cosine))
