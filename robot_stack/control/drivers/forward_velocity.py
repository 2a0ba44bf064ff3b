"""Forward velocity controllers: joint speeds, of which the newest is kept for ever.

Nothing in such a controller stops an arm whose commander has died. So it is only used where the cell says that
something below it does (`downstream_timeout_s`), and speeds are sent at every tick, zeros included.
"""

from __future__ import annotations

import numpy as np

from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.kinematics.joint_motion import JointMotionSolver


class ForwardVelocityCore:
    """The core for a forward velocity controller: joint speeds that make the TCP follow the twist."""

    def __init__(self, solver: JointMotionSolver, joints: int) -> None:
        self.held_by = ""
        """The joint that slows the motion down, or ""."""
        self._solver = solver
        self._joints = joints

    def step(self, command: DriverCommand) -> np.ndarray:
        """Return the joint speeds of this tick, shape (J,), rad/s, always: a speed that is not replaced goes on."""
        if not command.live or command.angles is None:
            return np.zeros(self._joints)
        motion = self._solver.solve(command.angles, command.twist * command.speed_share)
        self.held_by = motion.held_by
        return motion.speeds
