"""Rigid poses and free twists. Metres, radians, quaternions xyzw; `T_a_b` is the pose of b in a.

A free twist (of the TCP, at the TCP) changes frame with R only: adding `p x R` would couple translation into
rotation.

What runs at every control tick is written out in floats here: scipy's rotations take 15 us an operation, these 2 to 4.
`Pose.rotation` is for everything else; what asks for none does without scipy, half a second of each command's start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robot_stack.types.errors import SpecError

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

SMALLEST_SINE = 1e-7
"""Sine of half an angle below which the angle is twice that."""
_CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pose:
    """A rigid pose: position (3,) in metres and unit quaternion xyzw (4,), float64."""

    position_m: np.ndarray
    quaternion_xyzw: np.ndarray

    def __post_init__(self) -> None:
        position = np.asarray(self.position_m, dtype=np.float64)
        quaternion = np.asarray(self.quaternion_xyzw, dtype=np.float64)
        if position.shape != (3,) or quaternion.shape != (4,):
            raise SpecError(f"pose has shapes {position.shape} and {quaternion.shape}, must be (3,) and (4,)")
        norm = math.sqrt(quaternion.dot(quaternion))
        if not all(map(math.isfinite, position.tolist())) or not abs(norm - 1.0) <= 1e-3:
            raise SpecError(f"pose is {position} {quaternion}, must be finite with a unit quaternion")
        object.__setattr__(self, "position_m", position)
        object.__setattr__(self, "quaternion_xyzw", quaternion / norm)

    @classmethod
    def identity(cls) -> Pose:
        """Return the pose of a frame in itself."""
        return cls(position_m=np.zeros(3), quaternion_xyzw=np.array([0.0, 0.0, 0.0, 1.0]))

    @classmethod
    def from_rotation(cls, position_m: np.ndarray, rotation: Rotation) -> Pose:
        """Build a pose from a position (3,) in metres and a scipy rotation."""
        return cls(position_m=position_m, quaternion_xyzw=rotation.as_quat())

    @classmethod
    def from_rpy(cls, position_m: np.ndarray, rpy_rad: np.ndarray) -> Pose:
        """Build a pose from a position (3,) in metres and turns about the fixed axes x, then y, then z, (3,) in rad."""
        (sr, sp, sy), (cr, cp, cy) = np.sin(np.divide(rpy_rad, 2)), np.cos(np.divide(rpy_rad, 2))
        turned = _product([0.0, 0.0, sy, cy], list(_product([0.0, sp, 0.0, cp], [sr, 0.0, 0.0, cr])))
        return cls(position_m=position_m, quaternion_xyzw=np.array(turned))

    @classmethod
    def from_rotation_matrix(cls, position_m: np.ndarray, matrix: np.ndarray) -> Pose:
        """Build a pose from a position (3,) in metres and a proper rotation matrix, shape (3, 3)."""
        return cls(position_m=position_m, quaternion_xyzw=_quaternion_of(matrix.tolist()))

    @classmethod
    def from_matrix(cls, transform: np.ndarray) -> Pose:
        """Build a pose from a homogeneous transform, shape (4, 4), with a proper rotation."""
        return cls.from_rotation_matrix(transform[:3, 3].copy(), transform[:3, :3])

    @property
    def rotation(self) -> Rotation:
        """Return the orientation as a scipy rotation."""
        from scipy.spatial.transform import Rotation

        return Rotation.from_quat(self.quaternion_xyzw)

    @property
    def matrix(self) -> np.ndarray:
        """Return the orientation as a rotation matrix, shape (3, 3): its columns are the axes of this frame."""
        x, y, z, w = self.quaternion_xyzw.tolist()
        return np.array(
            [
                [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
                [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
                [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
            ]
        )

    def __matmul__(self, other: Pose) -> Pose:
        """Compose two poses: T_a_c = T_a_b @ T_b_c."""
        return Pose(
            position_m=self.position_m + self.matrix @ other.position_m,
            quaternion_xyzw=np.array(_product(self.quaternion_xyzw.tolist(), other.quaternion_xyzw.tolist())),
        )

    def inverse(self) -> Pose:
        """Return the inverse pose, T_b_a of T_a_b."""
        return Pose(position_m=-(self.position_m @ self.matrix), quaternion_xyzw=self.quaternion_xyzw * _CONJUGATE)

    def relative_to(self, reference: Pose) -> Pose:
        """Express this pose in `reference`: T_ref_self."""
        return reference.inverse() @ self


def turn_between(before: Pose, after: Pose) -> np.ndarray:
    """Return the turn from one orientation to another as a rotation vector in rad, in the frame both are given in."""
    x, y, z, w = _product(after.quaternion_xyzw.tolist(), (before.quaternion_xyzw * _CONJUGATE).tolist())
    size = math.sqrt(x * x + y * y + z * z)
    if size < SMALLEST_SINE:
        return np.array([x, y, z]) * math.copysign(2.0, w)
    return np.array([x, y, z]) * (2.0 * math.atan2(math.copysign(size, w), abs(w)) / size)


def _product(a: list[float], b: list[float]) -> tuple[float, float, float, float]:
    """Multiply two quaternions xyzw: first turn by b, then by a."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def _quaternion_of(rows: list[list[float]]) -> np.ndarray:
    """Return the unit quaternion xyzw of a rotation matrix.

    Source: Shepperd, 1978, "Quaternion from rotation matrix".
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rows
    largest = max(xx, yy, zz, xx + yy + zz)
    if largest == xx:
        raw = (1.0 + xx - yy - zz, yx + xy, zx + xz, zy - yz)
    elif largest == yy:
        raw = (yx + xy, 1.0 + yy - xx - zz, zy + yz, xz - zx)
    elif largest == zz:
        raw = (zx + xz, zy + yz, 1.0 + zz - xx - yy, yx - xy)
    else:
        raw = (zy - yz, xz - zx, yx - xy, 1.0 + xx + yy + zz)
    return np.array(raw) / math.sqrt(sum(entry * entry for entry in raw))


def rotate_twist(twist: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Express a free twist in another frame: `[R v, R w]`.

    Args:
        twist: Linear then angular, shape (6,), m/s and rad/s, in frame b.
        matrix: R_a_b, shape (3, 3).

    Returns:
        The same motion in frame a, shape (6,).
    """
    return np.asarray((np.reshape(twist, (2, 3)) @ matrix.T).ravel())
