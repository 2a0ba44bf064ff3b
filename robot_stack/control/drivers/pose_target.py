"""Controllers that follow a pose of the TCP and hold the last one for ever, such as Cartesian impedance (crisp).

A target never runs away: it is at most a lead away from what is measured, whatever blocks the arm, and it starts at
what is measured. A lead instead of starting anew at every stop, because then an arm that sags below its target would
sink a little at each of them.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.drivers.core import DriverCommand, Fading
from robot_stack.control.safety.bounds import limit_norm
from robot_stack.types.pose import Pose

REST_S = 0.1
"""After the reason to move has gone, the pose that was measured then is sent for this long; then the driver holds it.
The arm behind a driver that starts anew after that may stand elsewhere."""


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


class PoseTargetCore:
    """The core for a pose controller: a target pose that the twist moves; on silence or fault, the pose of the arm."""

    def __init__(self, lead_m: float, lead_rad: float) -> None:
        self._lead_m = lead_m
        self._target = PoseTarget(lead_m, lead_rad)
        self._rest: Pose | None = None
        self._resting = Fading(REST_S)

    def step(self, command: DriverCommand) -> Pose | None:
        """Return T_base_tcp to go to, or None once the driver has been told to stay where it is."""
        if command.live and command.pose is not None:
            if not self._target.is_set and not command.twist.any():
                return None  # it stays where it is, wherever that is, until somebody wants it to move
            self._rest = None
            self._resting.renew()
            return self._target.move(command.twist * command.speed_share, command.pose, command.dt_s)
        self._target.forget()
        if command.pose is None or not self._resting.lasts(command.dt_s):
            return None
        if self._rest is None or float(np.linalg.norm(self._rest.position_m - command.pose.position_m)) > self._lead_m:
            self._rest = command.pose
        return self._rest
