"""Universal Robots: is the program running, is the safety controller content, how fast does the pendant let it go.

The driver's motion controllers are stopped when the program on the robot stops, and the arm moves again only after a
person has started it again.
"""

from __future__ import annotations

import math

SAFETY_MODES = {
    1: "NORMAL",
    2: "REDUCED",
    3: "PROTECTIVE_STOP",
    4: "RECOVERY",
    5: "SAFEGUARD_STOP",
    6: "SYSTEM_EMERGENCY_STOP",
    7: "ROBOT_EMERGENCY_STOP",
    8: "VIOLATION",
    9: "FAULT",
    10: "VALIDATE_JOINT_ID",
    11: "UNDEFINED_SAFETY_MODE",
    12: "AUTOMATIC_MODE_SAFEGUARD_STOP",
    13: "SYSTEM_THREE_POSITION_ENABLING_STOP",
}
"""ur_dashboard_msgs/SafetyMode."""
MOVING = ("NORMAL", "REDUCED")


class UrStatus:
    """The three things a UR says besides its state. Sent on a change only, and latched."""

    def __init__(self, program_topic: str, safety_topic: str) -> None:
        self.speed_share = 1.0
        """Of the wanted speed, as set on the pendant or by a reduced mode, in [0, 1]."""
        self.safety_mode = ""
        self.running: bool | None = None
        self._program_topic = program_topic
        self._safety_topic = safety_topic
        self._has_run = False

    def take_program(self, running: bool) -> None:
        """robot_program_running."""
        self.running = running
        self._has_run |= running

    def take_safety_mode(self, mode: int) -> None:
        """safety_mode."""
        self.safety_mode = SAFETY_MODES.get(mode, f"UNKNOWN ({mode})")

    def take_speed_scaling(self, percent: float) -> str:
        """speed_scaling; returns why it cannot be used, or ""."""
        if not math.isfinite(percent) or percent < 0.0:
            return f"speed scaling is {percent}, must be a percentage; look after the driver"
        self.speed_share = min(1.0, percent / 100.0)
        return ""

    def fault(self) -> str:
        """A stop by the safety controller, or a program that was running and is not any more."""
        if self.safety_mode and self.safety_mode not in MOVING:
            return f"UR says {self.safety_mode} on {self._safety_topic}; clear it on the pendant"
        if self._has_run and self.running is False:
            return f"UR says on {self._program_topic} that its program has stopped; start it again on the pendant"
        return ""

    def waiting(self) -> str:
        """A program that has not been started yet."""
        if self.running is False and not self._has_run:
            return f"UR says on {self._program_topic} that no program runs; start External Control on the pendant"
        return ""
