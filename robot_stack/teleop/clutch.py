"""A follower that repeats the motion of a handle while the clutch is held. Pure.

When the clutch closes, the target is where the follower is, wherever the handle is. From then on the target moves as
the handle does, and the follower is sent after it. The target never runs further ahead than full speed covers in the
time constant: what is beyond is let go, so that nothing is made up for later and a handle that stops stops the arm.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.teleop.robot_view import shortened
from robot_stack.types.pose import Pose

AXES_OF = {
    "ros": np.eye(3),
    "openxr": np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
}
"""From the axes of a base to x forward, y left, z up. OpenXR, and so WebXR and the headset's own: x right, y up,
z backward."""


class Clutch:
    """The clutch between one handle and one follower."""

    def __init__(
        self,
        full_scale: np.ndarray,
        *,
        gain_per_s: float,
        motion_scale: float = 1.0,
        yaw_rad: float = 0.0,
        axes: str = "ros",
    ) -> None:
        """Start with the clutch open.

        Args:
            full_scale: Twist at full deflection, shape (6,), m/s and rad/s, 0 on axes that do not move.
            gain_per_s: Speed per distance to the target.
            motion_scale: Metres of the follower per metre of the handle.
            yaw_rad: From the follower's base to the handle's, about z.
            axes: Of the handle's base, out of `AXES_OF`.
        """
        self._full_scale = full_scale
        self._gain = gain_per_s
        self._motion_scale = motion_scale
        self._align = Rotation.from_euler("z", yaw_rad) * Rotation.from_matrix(AXES_OF[axes])
        self._handle: Pose | None = None
        self._target: Pose | None = None

    def open(self) -> None:
        """Open the clutch: the handle moves alone."""
        self._handle = self._target = None

    def follow(self, handle: Pose, follower: Pose) -> np.ndarray:
        """Return the wanted deflection, (6,), unitless in [-1, 1], tcp frame; zeros at the first call after `open`.

        Args:
            handle: Pose in its own base.
            follower: T_base_tcp.
        """
        if self._handle is None or self._target is None:
            self._handle, self._target = handle, follower
        moved_m = self._align.apply(handle.position_m - self._handle.position_m) * self._motion_scale
        turned = self._align * (handle.rotation * self._handle.rotation.inv()) * self._align.inv()
        target_m = self._target.position_m + moved_m
        target_rotation = turned * self._target.rotation
        back = follower.rotation.inv()
        behind = np.concatenate([back.apply(target_m - follower.position_m), (back * target_rotation).as_rotvec()])
        moves = self._full_scale > 0.0
        wanted = np.zeros(6)
        wanted[moves] = self._gain * behind[moves] / self._full_scale[moves]
        deflection = np.concatenate([shortened(wanted[:3]), shortened(wanted[3:])])
        left = deflection * self._full_scale / self._gain
        self._handle = handle
        self._target = Pose.from_rotation(
            follower.position_m + follower.rotation.apply(left[:3]),
            follower.rotation * Rotation.from_rotvec(left[3:]),
        )
        return deflection
