"""Franka: the robot's mode, and recovery that only a person starts.

A command that is not finite makes franka_ros2 put its hardware into ERROR. A reflex or an error then stays until
error recovery is asked for; this side never asks by itself.
"""

from __future__ import annotations

ROBOT_MODES = {
    0: "OTHER",
    1: "IDLE",
    2: "MOVE",
    3: "GUIDING",
    4: "REFLEX",
    5: "USER_STOPPED",
    6: "AUTOMATIC_ERROR_RECOVERY",
}
"""franka_msgs/FrankaRobotState."""
FAULTS = {
    "REFLEX": "free the arm",
    "USER_STOPPED": "release the stop button",
    "OTHER": "look at Franka Desk",
}
WAITING = ("GUIDING", "AUTOMATIC_ERROR_RECOVERY", "IDLE")


class FrankaStatus:
    """Mode of the robot."""

    def __init__(self, topic: str) -> None:
        self.mode = ""
        self._topic = topic

    def take(self, mode: int) -> None:
        """A robot state."""
        self.mode = ROBOT_MODES.get(mode, "OTHER")

    def fault(self) -> str:
        """What a person must clear."""
        remedy = FAULTS.get(self.mode)
        return "" if remedy is None else f"Franka says {self.mode} on {self._topic}; {remedy}"

    def waiting(self) -> str:
        """What ends by itself: no controller active yet, or the arm is led by hand."""
        if self.mode in WAITING:
            return f"Franka says {self.mode} on {self._topic}, must be MOVE; activate its controller"
        return ""
