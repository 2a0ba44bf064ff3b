"""The core and status of MoveIt Servo: a twist in its units, and its status codes.

Servo measures the age of a command by its header stamp against its own clock (incoming_command_timeout, 0.1 s) and
halts smoothly when it is old. In unitless mode an entry beyond 1 makes it drop the whole command.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from robot_stack.control.drivers.core import DriverCommand
from robot_stack.types.reason import Fault, FaultKind


class ServoState(StrEnum):
    """A state of MoveIt Servo, whichever number its version sends for it."""

    INVALID = "INVALID"
    NO_WARNING = "NO_WARNING"
    DECELERATE_FOR_APPROACHING_SINGULARITY = "DECELERATE_FOR_APPROACHING_SINGULARITY"
    HALT_FOR_SINGULARITY = "HALT_FOR_SINGULARITY"
    DECELERATE_FOR_LEAVING_SINGULARITY = "DECELERATE_FOR_LEAVING_SINGULARITY"
    DECELERATE_FOR_COLLISION = "DECELERATE_FOR_COLLISION"
    HALT_FOR_COLLISION = "HALT_FOR_COLLISION"
    JOINT_BOUND = "JOINT_BOUND"


JAZZY = {
    -1: ServoState.INVALID,
    0: ServoState.NO_WARNING,
    1: ServoState.DECELERATE_FOR_APPROACHING_SINGULARITY,
    2: ServoState.HALT_FOR_SINGULARITY,
    3: ServoState.DECELERATE_FOR_LEAVING_SINGULARITY,
    4: ServoState.DECELERATE_FOR_COLLISION,
    5: ServoState.HALT_FOR_COLLISION,
    6: ServoState.JOINT_BOUND,
}
"""moveit_msgs/ServoStatus."""
HUMBLE = {
    -1: ServoState.INVALID,
    0: ServoState.NO_WARNING,
    1: ServoState.DECELERATE_FOR_APPROACHING_SINGULARITY,
    2: ServoState.HALT_FOR_SINGULARITY,
    3: ServoState.DECELERATE_FOR_COLLISION,
    4: ServoState.HALT_FOR_COLLISION,
    5: ServoState.JOINT_BOUND,
    6: ServoState.DECELERATE_FOR_LEAVING_SINGULARITY,
}
"""std_msgs/Int8, as sent before moveit_msgs had a message for it. The numbers differ."""
HALTED = (
    ServoState.INVALID,
    ServoState.HALT_FOR_SINGULARITY,
    ServoState.HALT_FOR_COLLISION,
    ServoState.JOINT_BOUND,
)


class ServoCore:
    """The core for MoveIt Servo: twists in the tcp frame, in the units that its command_in_type asks for."""

    def __init__(self, *, unitless: bool, linear_scale_m_s: float, rotational_scale_rad_s: float) -> None:
        """Set the units and scales that Servo is configured with.

        Args:
            unitless: command_in_type is "unitless"; else "speed_units".
            linear_scale_m_s: scale.linear: speed at 1.0.
            rotational_scale_rad_s: scale.rotational.
        """
        scale = np.array([linear_scale_m_s] * 3 + [rotational_scale_rad_s] * 3)
        self._scale = scale if unitless else None

    def step(self, command: DriverCommand) -> np.ndarray:
        """Return the twist of this tick, shape (6,), always: zeros bring the arm to rest sooner than silence does."""
        twist = command.twist if command.live else np.zeros(6)
        if self._scale is None:
            return twist
        entries = twist / self._scale
        largest = float(np.abs(entries).max())
        shorter: np.ndarray = entries / max(1.0, largest)  # all entries alike: the direction stays
        return shorter


class ServoStatus:
    """The newest status of Servo. A halt is a fault when it begins; an operator may then drive out of it."""

    def __init__(self, states: dict[int, ServoState], topic: str) -> None:
        self._states = states
        self._topic = topic
        self._code: int | None = None
        self._halted: Fault | None = None

    @property
    def state(self) -> str:
        """Return the newest state's name, for people; "" before the first."""
        if self._code is None:
            return ""
        return str(self._states.get(self._code, f"UNKNOWN ({self._code})"))

    def take(self, code: int) -> None:
        """Take a status message; a code that this version does not know counts as a halt."""
        if code == self._code:
            return
        self._code, self._halted = code, None
        if self._states.get(code, ServoState.INVALID) in HALTED:
            text = f"MoveIt Servo says {self.state} on {self._topic}; free the arm"
            self._halted = Fault(kind=FaultKind.DRIVER_ERROR, text=text)

    def fault(self) -> Fault | None:
        """Return why Servo halted, until it goes on or an operator has seen it; else None."""
        return self._halted

    def acknowledge(self) -> None:
        """Acknowledge the halt for an operator: motion out of it may pass, Servo itself refuses the way further in."""
        self._halted = None
