"""Targets that a twist moves, for drivers that take poses or joint angles instead of velocities.

A target never runs away: it is at most a lead away from what is measured, whatever blocks the arm, and it starts at
what is measured. A lead instead of starting anew at every stop, because then an arm that sags below its target would
sink a little at each of them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.safety.rates import limit_norm
from robot_stack.types.pose import Pose

TURN_RAD = 2.0 * math.pi


class PoseTarget:
    """A target pose in the base frame that a twist moves."""

    def __init__(self, lead_m: float, lead_rad: float) -> None:
        self._lead_m = lead_m
        self._lead_rad = lead_rad
        self._pose: Pose | None = None

    @property
    def is_set(self) -> bool:
        """Return whether there was a `move` since the start or the last `forget`."""
        return self._pose is not None

    def forget(self) -> None:
        """Forget the target: the next `move` starts at the measured pose."""
        self._pose = None

    def move(self, twist: np.ndarray, measured: Pose, dt_s: float) -> Pose:
        """Move the target by a twist for `dt_s`, and return it.

        Args:
            twist: Shape (6,), m/s and rad/s, tcp frame; zeros keep the target where it is.
            measured: T_base_tcp.
            dt_s: Since the previous call.
        """
        before = measured if self._pose is None else self._pose
        position = before.position_m + before.rotation.apply(twist[:3]) * dt_s
        rotation = before.rotation * Rotation.from_rotvec(twist[3:] * dt_s)
        ahead_m = limit_norm(position - measured.position_m, self._lead_m)
        ahead_rad = limit_norm((rotation * measured.rotation.inv()).as_rotvec(), self._lead_rad)
        turned = Rotation.from_rotvec(ahead_rad) * measured.rotation
        self._pose = Pose.from_rotation(measured.position_m + ahead_m, turned)
        return self._pose


class JointTarget:
    """Target angles of an arm's joints that joint speeds move."""

    def __init__(self, lead_rad: float, lower: np.ndarray, upper: np.ndarray) -> None:
        self._lead_rad = lead_rad
        self._lower = lower
        self._upper = upper
        self._endless = upper - lower > TURN_RAD
        self.angles: np.ndarray | None = None
        """Shape (J,), or None before the first `move` and after `forget`."""

    def forget(self) -> None:
        """Forget the target: the next `move` starts at the measured angles."""
        self.angles = None

    def move(self, speeds: np.ndarray, measured: np.ndarray, dt_s: float) -> np.ndarray:
        """Move the target for `dt_s`, and return it, shape (J,); `speeds` (J,) in rad/s, `measured` angles (J,).

        The angle of a joint that turns without end may jump by a turn as measured; the target goes on without a jump.
        """
        before = measured if self.angles is None else self.angles
        turns = np.where(self._endless, np.round((before - measured) / TURN_RAD), 0.0)
        measured = measured + turns * TURN_RAD
        ahead = np.clip(before + speeds * dt_s - measured, -self._lead_rad, self._lead_rad)
        self.angles = self.inside(measured + ahead, measured)
        return self.angles

    def inside(self, angles: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """Cut angles (J,) to the joints' ranges; an arm that stands outside is not thrown back into them."""
        cut: np.ndarray = np.clip(angles, np.minimum(self._lower, measured), np.maximum(self._upper, measured))
        return cut
