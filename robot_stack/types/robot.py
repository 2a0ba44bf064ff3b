"""The state that an arm reports, and the sample that a teleop device gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotState:
    """The state of one arm at one instant.

    Attributes:
        arm: Its name.
        stamp_ns: Capture time.
        T_base_tcp: Pose of the tool centre point in the base frame.
        twist: Of the TCP, float64, shape (6,), m/s and rad/s, in the tcp frame.
        wrench: Force and torque on the TCP from outside, float64, shape (6,), N and Nm, in the tcp frame.
        joints_rad: Joint positions, float64, shape (J,).
        joint_speeds_rad_s: Joint velocities, float64, shape (J,).
        gripper: Opening in [0, 1].
        fault: What the robot or its driver reports, or None.
    """

    arm: str
    stamp_ns: int
    T_base_tcp: Pose
    twist: np.ndarray
    wrench: np.ndarray
    joints_rad: np.ndarray
    joint_speeds_rad_s: np.ndarray
    gripper: float
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleopSample:
    """The sample of a teleop device at one instant: wanted twist, gripper, deadman and events.

    Attributes:
        stamp_ns: Capture time.
        twist: Wanted twist, float64, shape (6,), unitless in [-1, 1], tcp frame.
        gripper: -1 close, 0 nothing pressed, +1 open.
        deadman: True while the human holds control.
        events: Keys pressed since the last sample, out of `EVENTS`.
        lost: True while the device is absent, silent or sends nonsense. Control is then lost, not given back: a
            deadman that is only released hands the arm to the policy.
        session: As in `Command`; None for a stranger's, whose seal does not fit.
    """

    stamp_ns: int
    twist: np.ndarray
    gripper: int = 0
    deadman: bool = False
    events: tuple[str, ...] = ()
    lost: bool = False
    session: str | None = ""


EVENTS = ("success", "failure", "discard", "hold", "stop", "reset_done", "arm", "next_arm", "dismiss", "stage")
"""The events an operator can send, from any device; indices are their place on the wire."""
ENDS_MOTION = frozenset({"hold", "stop"})
"""Of these, the ones that count whoever sends them, however late, and also if nobody saw their key go down."""
