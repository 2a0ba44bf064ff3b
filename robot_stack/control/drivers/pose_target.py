"""Controllers that follow a pose of the TCP and hold the last one for ever, such as Cartesian impedance (crisp)."""

from __future__ import annotations

import numpy as np

from robot_stack.control.drivers.core import DriverCommand, Fading
from robot_stack.control.drivers.targets import PoseTarget
from robot_stack.types.pose import Pose

REST_S = 0.1
"""After the reason to move has gone, the pose that was measured then is sent for this long; then the driver holds it.
The arm behind a driver that starts anew after that may stand elsewhere."""


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
