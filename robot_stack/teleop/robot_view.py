"""The pose of the tool as a device must know it, and the conversion of deflections in other frames to the tool's."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose, rotate_twist

OLDEST_NS = 200_000_000


class RobotView:
    """The newest pose of the tool, as the robot reports it."""

    def __init__(self) -> None:
        self._pose: Pose | None = None
        self._stamp_ns = 0

    def see(self, T_base_tcp: Pose, stamp_ns: int) -> None:
        """Take the pose of the tool that the robot reports."""
        self._pose, self._stamp_ns = T_base_tcp, stamp_ns

    def pose(self, now_ns: int) -> Pose:
        """Return the newest T_base_tcp.

        Raises:
            RobotError: If the robot has not reported for too long.
        """
        if self._pose is None or now_ns - self._stamp_ns > OLDEST_NS:
            raise RobotError(f"robot state is missing or older than {OLDEST_NS / 1e6:.0f} ms; start the robot process")
        return self._pose


class DeflectionFrame:
    """The frame in which an operator means a deflection, and its conversion to the tool's."""

    def __init__(self, frame: str, viewer_yaw_rad: float, robot: RobotView) -> None:
        """Keep the frame; the robot is asked for nothing yet.

        Args:
            frame: "tcp", "base" or "viewer".
            viewer_yaw_rad: With "viewer": direction that the operator looks in, about z of the base.
            robot: Asked for the tool's rotation, unless the frame is the tool's own.
        """
        self._frame = frame
        self._base_viewer = Rotation.from_euler("z", viewer_yaw_rad if frame == "viewer" else 0.0).as_matrix()
        self._robot = robot

    def to_tcp(self, deflection: np.ndarray, now_ns: int) -> np.ndarray:
        """Turn a deflection (6,) into the tool's frame, shortened where an entry would leave [-1, 1].

        Raises:
            RobotError: If the robot's pose is needed and missing.
        """
        if self._frame == "tcp":
            return deflection
        turned = rotate_twist(deflection, self._robot.pose(now_ns).matrix.T @ self._base_viewer)
        return np.concatenate([shortened(turned[:3]), shortened(turned[3:])])


def shortened(part: np.ndarray) -> np.ndarray:
    """Shorten a vector (3,), in its own direction, until no entry is beyond 1."""
    return np.asarray(part / max(1.0, float(np.abs(part).max())))
