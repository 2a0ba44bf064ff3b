"""MoveIt Servo: a twist, in its units, and its status codes.

Servo measures the age of a command by its header stamp against its own clock (incoming_command_timeout, 0.1 s) and
halts smoothly when it is old. In unitless mode an entry beyond 1 makes it drop the whole command.
"""

from __future__ import annotations

import numpy as np

from robot_stack.control.drivers.core import Wish

JAZZY = {
    -1: "INVALID",
    0: "NO_WARNING",
    1: "DECELERATE_FOR_APPROACHING_SINGULARITY",
    2: "HALT_FOR_SINGULARITY",
    3: "DECELERATE_FOR_LEAVING_SINGULARITY",
    4: "DECELERATE_FOR_COLLISION",
    5: "HALT_FOR_COLLISION",
    6: "JOINT_BOUND",
}
"""moveit_msgs/ServoStatus."""
HUMBLE = {
    -1: "INVALID",
    0: "NO_WARNING",
    1: "DECELERATE_FOR_APPROACHING_SINGULARITY",
    2: "HALT_FOR_SINGULARITY",
    3: "DECELERATE_FOR_COLLISION",
    4: "HALT_FOR_COLLISION",
    5: "JOINT_BOUND",
    6: "DECELERATE_FOR_LEAVING_SINGULARITY",
}
"""std_msgs/Int8, as sent before moveit_msgs had a message for it. The numbers differ."""
HALTED = ("INVALID", "HALT_FOR_SINGULARITY", "HALT_FOR_COLLISION", "JOINT_BOUND")


class ServoCore:
    """Twists in the tcp frame, in the units that Servo's command_in_type asks for."""

    def __init__(self, *, unitless: bool, linear_scale_m_s: float, rotational_scale_rad_s: float) -> None:
        """Servo's own scales.

        Args:
            unitless: command_in_type is "unitless"; else "speed_units".
            linear_scale_m_s: scale.linear: speed at 1.0.
            rotational_scale_rad_s: scale.rotational.
        """
        scale = np.array([linear_scale_m_s] * 3 + [rotational_scale_rad_s] * 3)
        self._scale = scale if unitless else None

    def step(self, wish: Wish) -> np.ndarray:
        """Always a twist, shape (6,): zeros bring the arm to rest sooner than silence does."""
        twist = wish.twist if wish.live else np.zeros(6)
        if self._scale is None:
            return twist
        entries = twist / self._scale
        largest = float(np.abs(entries).max())
        shorter: np.ndarray = entries / max(1.0, largest)  # all entries alike: the direction stays
        return shorter


class ServoStatus:
    """What Servo says of itself. A halt is a fault when it begins; a person may then drive out of it."""

    def __init__(self, names: dict[int, str], topic: str) -> None:
        self._names = names
        self._topic = topic
        self.state = ""
        """The newest code's name."""
        self._halted = ""

    def take(self, code: int) -> None:
        """A status message."""
        name = self._names.get(code, f"UNKNOWN ({code})")
        if name == self.state:
            return
        self.state = name
        stopped = name in HALTED or name not in self._names.values()
        self._halted = f"MoveIt Servo says {name} on {self._topic}; free the arm" if stopped else ""

    def fault(self) -> str:
        """Why Servo halted, until it goes on or a person has seen it."""
        return self._halted

    def acknowledge(self) -> None:
        """A person has seen the halt: motion out of it may pass, Servo itself refuses the way further in."""
        self._halted = ""
