"""The status of a Universal Robots arm: its program, its safety mode, and the speed that the pendant lets it have.

The driver's motion controllers are stopped when the program on the robot stops, and the arm moves again only after a
operator has started it again.
"""

from __future__ import annotations

import math
from enum import IntEnum

from robot_stack.types.reason import Fault, FaultKind


class SafetyMode(IntEnum):
    """A mode of a UR's safety controller, by its number in ur_dashboard_msgs/SafetyMode."""

    NORMAL = 1
    REDUCED = 2
    PROTECTIVE_STOP = 3
    RECOVERY = 4
    SAFEGUARD_STOP = 5
    SYSTEM_EMERGENCY_STOP = 6
    ROBOT_EMERGENCY_STOP = 7
    VIOLATION = 8
    FAULT = 9
    VALIDATE_JOINT_ID = 10
    UNDEFINED_SAFETY_MODE = 11
    AUTOMATIC_MODE_SAFEGUARD_STOP = 12
    SYSTEM_THREE_POSITION_ENABLING_STOP = 13


KINDS: dict[SafetyMode, FaultKind | None] = {
    SafetyMode.NORMAL: None,
    SafetyMode.REDUCED: None,
    SafetyMode.PROTECTIVE_STOP: FaultKind.PROTECTIVE_STOP,
    SafetyMode.RECOVERY: FaultKind.PROTECTIVE_STOP,
    SafetyMode.SAFEGUARD_STOP: FaultKind.PROTECTIVE_STOP,
    SafetyMode.SYSTEM_EMERGENCY_STOP: FaultKind.EMERGENCY_STOP,
    SafetyMode.ROBOT_EMERGENCY_STOP: FaultKind.EMERGENCY_STOP,
    SafetyMode.VIOLATION: FaultKind.PROTECTIVE_STOP,
    SafetyMode.FAULT: FaultKind.PROTECTIVE_STOP,
    SafetyMode.VALIDATE_JOINT_ID: FaultKind.DRIVER_ERROR,
    SafetyMode.UNDEFINED_SAFETY_MODE: FaultKind.DRIVER_ERROR,
    SafetyMode.AUTOMATIC_MODE_SAFEGUARD_STOP: FaultKind.PROTECTIVE_STOP,
    SafetyMode.SYSTEM_THREE_POSITION_ENABLING_STOP: FaultKind.PROTECTIVE_STOP,
}
"""What each mode means for the cell; None where the arm may move."""


class UrStatus:
    """The program, safety mode and speed scaling that a UR reports; program and mode come on a change only, latched."""

    def __init__(self, program_topic: str, safety_topic: str) -> None:
        self.speed_share = 1.0
        """Of the wanted speed, as set on the pendant or by a reduced mode, in [0, 1]."""
        self.running: bool | None = None
        self._mode: int | None = None
        self._program_topic = program_topic
        self._safety_topic = safety_topic
        self._has_run = False

    @property
    def safety_mode(self) -> str:
        """Return the newest mode's name, for people; "" before the first."""
        if self._mode is None:
            return ""
        return SafetyMode(self._mode).name if self._mode in KINDS else f"UNKNOWN ({self._mode})"

    def take_program(self, running: bool) -> None:
        """Take the driver's robot_program_running."""
        self.running = running
        self._has_run |= running

    def take_safety_mode(self, mode: int) -> None:
        """Take the number of the driver's safety_mode."""
        self._mode = mode

    def take_speed_scaling(self, percent: float) -> Fault | None:
        """Take the driver's speed_scaling, in percent; return why it cannot be used."""
        if not math.isfinite(percent) or percent < 0.0:
            text = f"speed scaling is {percent}, must be a percentage; look after the driver"
            return Fault(kind=FaultKind.INPUT_INVALID, text=text)
        self.speed_share = min(1.0, percent / 100.0)
        return None

    def fault(self) -> Fault | None:
        """Return a stop by the safety controller, or a program that was running and is not any more; else None."""
        kind = self._kind_of_mode()
        if kind is not None:
            text = f"UR says {self.safety_mode} on {self._safety_topic}; clear it on the pendant"
            return Fault(kind=kind, text=text)
        if self._has_run and self.running is False:
            text = f"UR says on {self._program_topic} that its program has stopped; start it again on the pendant"
            return Fault(kind=FaultKind.DRIVER_ERROR, text=text)
        return None

    def waiting(self) -> Fault | None:
        """Return a reason to wait for a program that has not been started yet, or None."""
        if self.running is False and not self._has_run:
            text = f"UR says on {self._program_topic} that no program runs; start External Control on the pendant"
            return Fault(kind=FaultKind.NOT_READY, text=text)
        return None

    def _kind_of_mode(self) -> FaultKind | None:
        """Return the kind of fault of the newest mode, or None where the arm may move.

        A mode that this version does not know is an error of the driver: nobody can say that the arm may move.
        """
        if self._mode is None:
            return None
        return KINDS[SafetyMode(self._mode)] if self._mode in KINDS else FaultKind.DRIVER_ERROR
