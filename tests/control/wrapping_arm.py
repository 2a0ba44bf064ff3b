"""A kinematic arm whose driver tells every angle within half a turn of zero, as ros2_kortex does."""

from __future__ import annotations

import numpy as np

from robot_stack.control.kinematics.chain import Chain
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState


class WrappingArm:
    """The arm; `angles`, shape (J,), rad, are those that its joints really have, turns included."""

    def __init__(self, chain: Chain, angles: np.ndarray) -> None:
        self._chain = chain
        self.angles = angles.copy()

    @property
    def told(self) -> np.ndarray:
        """Angles as its driver tells them, in [-pi, pi)."""
        return (self.angles + np.pi) % (2.0 * np.pi) - np.pi

    def pose(self) -> Pose:
        """T_base_tcp."""
        return self._chain.pose(self.angles)

    def state(self) -> RobotState:
        """What its driver tells."""
        return RobotState(
            arm="arm",
            stamp_ns=0,
            T_base_tcp=self.pose(),
            twist=np.zeros(6),
            wrench=np.zeros(6),
            joints_rad=self.told,
            joint_speeds_rad_s=np.zeros(len(self.angles)),
            gripper=0.0,
        )

    def move(self, speeds: np.ndarray, dt_s: float) -> None:
        """Move each joint by its speed, shape (J,), rad/s."""
        self.angles = self.angles + speeds * dt_s
