"""The mode of a Franka robot, and recovery that only an operator starts.

A command that is not finite makes franka_ros2 put its hardware into ERROR. A reflex or an error then stays until
error recovery is asked for; this side never asks by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from robot_stack.types.reason import Fault, FaultKind


class RobotMode(IntEnum):
    """A mode of a Franka robot, by its number in franka_msgs/FrankaRobotState."""

    OTHER = 0
    IDLE = 1
    MOVE = 2
    GUIDING = 3
    REFLEX = 4
    USER_STOPPED = 5
    AUTOMATIC_ERROR_RECOVERY = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The meaning of a mode for the cell, and what an operator does about it."""

    kind: FaultKind
    remedy: str


TROUBLE = {
    RobotMode.REFLEX: Trouble(kind=FaultKind.DRIVER_ERROR, remedy="free the arm"),
    RobotMode.USER_STOPPED: Trouble(kind=FaultKind.EMERGENCY_STOP, remedy="release the stop button"),
    RobotMode.OTHER: Trouble(kind=FaultKind.DRIVER_ERROR, remedy="look at Franka Desk"),
}
"""Modes that an operator must clear. USER_STOPPED is entered by the button that Franka gives people to stop the arm
with, so somebody wants it to stay where it is: it latches STOP, as any other emergency stop does."""
WAITING = (RobotMode.GUIDING, RobotMode.AUTOMATIC_ERROR_RECOVERY, RobotMode.IDLE)


class FrankaStatus:
    """The newest mode of a Franka robot, and what it means for the cell."""

    def __init__(self, topic: str) -> None:
        self._mode: RobotMode | None = None
        self._topic = topic

    @property
    def mode(self) -> str:
        """Return the newest mode's name, for people; "" before the first."""
        return "" if self._mode is None else self._mode.name

    def take(self, mode: int) -> None:
        """Take the mode of a robot state; a mode that this version does not know counts as OTHER."""
        self._mode = RobotMode(mode) if mode in set(RobotMode) else RobotMode.OTHER

    def fault(self) -> Fault | None:
        """Return the fault that an operator must clear, or None."""
        trouble = None if self._mode is None else TROUBLE.get(self._mode)
        if trouble is None:
            return None
        return Fault(kind=trouble.kind, text=f"Franka says {self.mode} on {self._topic}; {trouble.remedy}")

    def waiting(self) -> Fault | None:
        """Return a reason to wait that ends by itself, or None: no active controller, guiding by hand, or recovery."""
        if self._mode not in WAITING:
            return None
        text = f"Franka says {self.mode} on {self._topic}, must be MOVE; activate its controller"
        return Fault(kind=FaultKind.NOT_READY, text=text)
