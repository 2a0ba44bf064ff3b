"""Forward kinematics and geometric Jacobian of a serial arm of revolute joints.

For joint i with unit axis z_i through o_i (both in the base frame), the columns of the Jacobian are
J_i = [z_i x (p - o_i), z_i], with p the TCP. Source: Siciliano et al., "Robotics", 2009, eq. 3.30.

Tables of Denavit-Hartenberg parameters come in two conventions.
Standard (Denavit and Hartenberg, 1955): T_i = Rz(theta) Tz(d) Tx(a) Rx(alpha).
Modified (Craig, "Introduction to Robotics", 1986): T_i = Rx(alpha) Tx(a) Rz(theta) Tz(d), with a and alpha of the link
before the joint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose


def transform_of(position_m: Sequence[float], rpy_rad: Sequence[float]) -> np.ndarray:
    """Return the homogeneous transform of a position and turns about the fixed axes x, y, z, in this order, (4, 4)."""
    transform = np.eye(4)
    transform[:3, :3] = Rotation.from_euler("xyz", rpy_rad).as_matrix()
    transform[:3, 3] = position_m
    return transform


IDENTITY = np.eye(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainJoint:
    """A revolute joint of a serial arm.

    Attributes:
        name: As the driver names it.
        origin: T_previous_joint at angle 0, shape (4, 4).
        axis: Unit axis in the joint's own frame, shape (3,).
    """

    name: str
    origin: np.ndarray
    axis: np.ndarray

    def __post_init__(self) -> None:
        length = float(np.linalg.norm(self.axis))
        if not math.isfinite(length) or length < 1e-6 or not np.isfinite(self.origin).all():
            raise ConfigError(f"joint {self.name} has axis {self.axis}, must be finite and not zero; correct it")
        object.__setattr__(self, "axis", np.asarray(self.axis, dtype=np.float64) / length)


class Chain:
    """A serial arm from base to TCP. Angles are in the order of `names`, float64, shape (J,), radians."""

    def __init__(self, joints: Sequence[ChainJoint], tip: np.ndarray) -> None:
        """Build the arm from its joints and the TCP's pose in the last one.

        Args:
            joints: From the base outwards.
            tip: T_lastjoint_tcp, shape (4, 4).
        """
        self.names = tuple(joint.name for joint in joints)
        self.origins = np.array([joint.origin for joint in joints])
        """T_previous_joint of each joint at angle 0, shape (J, 4, 4)."""
        self.axes = np.array([joint.axis for joint in joints])
        """Unit axis of each joint in its own frame, shape (J, 3)."""
        self.tip = tip
        """T_lastjoint_tcp, shape (4, 4)."""
        self._crosses = np.array([_cross_matrix(axis) for axis in self.axes])
        self._squares = self._crosses @ self._crosses

    def pose(self, angles: np.ndarray) -> Pose:
        """Return T_base_tcp at these angles."""
        return Pose.from_matrix(self.frames(angles)[-1] @ self.tip)

    def jacobian(self, angles: np.ndarray) -> tuple[Pose, np.ndarray]:
        """Return T_base_tcp and the geometric Jacobian in the base frame, shape (6, J).

        The Jacobian takes joint speeds to the twist of the TCP.
        """
        frames = self.frames(angles)
        tip = frames[-1] @ self.tip
        axes = np.einsum("jab,jb->ja", frames[:, :3, :3], self.axes)  # a turn leaves its own axis where it is
        jacobian = np.empty((6, len(self.names)))
        jacobian[:3] = np.cross(axes, tip[:3, 3] - frames[:, :3, 3]).T
        jacobian[3:] = axes.T
        return Pose.from_matrix(tip), jacobian

    def frames(self, angles: np.ndarray) -> np.ndarray:
        """Return T_base_joint of every joint after its turn, shape (J, 4, 4)."""
        sines, cosines = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
        turns = IDENTITY + sines * self._crosses + (1.0 - cosines) * self._squares  # Rodrigues
        frames = self.origins.copy()
        frames[:, :3, :3] = frames[:, :3, :3] @ turns
        for index in range(1, len(frames)):
            frames[index] = frames[index - 1] @ frames[index]
        return frames


def _cross_matrix(axis: np.ndarray) -> np.ndarray:
    x, y, z = axis
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


ORIGIN = (0.0, 0.0, 0.0)
Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class DhRow:
    """One row of a Denavit-Hartenberg table; `theta_rad` is added to the joint's angle."""

    a_m: float
    alpha_rad: float
    d_m: float
    theta_rad: float = 0.0


def chain_of_dh(
    names: Sequence[str], rows: Sequence[DhRow], *, modified: bool, base: np.ndarray, tcp: np.ndarray
) -> Chain:
    """Build the kinematic chain of an arm from its Denavit-Hartenberg table.

    Args:
        names: Of the joints, one per row.
        rows: From base to flange.
        modified: Craig's convention instead of the standard one.
        base: T_base_0: from the frame that poses are given in to frame 0 of the table, shape (4, 4).
        tcp: T_n_tcp: from the last frame of the table to the TCP, shape (4, 4).
    """
    joints, before = [], base
    for name, row in zip(names, rows, strict=True):
        turn, shift = transform_of(ORIGIN, (0.0, 0.0, row.theta_rad)), transform_of((0.0, 0.0, row.d_m), ORIGIN)
        link = transform_of((row.a_m, 0.0, 0.0), (row.alpha_rad, 0.0, 0.0))
        if modified:
            joints.append(ChainJoint(name=name, origin=before @ link @ shift @ turn, axis=Z))
            before = np.eye(4)
        else:
            joints.append(ChainJoint(name=name, origin=before @ turn, axis=Z))
            before = shift @ link
    return Chain(joints, before @ tcp)
