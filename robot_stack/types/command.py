"""The commands sent towards the robot, and the safety filter's decisions about them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np

from robot_stack.types.reason import Refusal


class Source(IntEnum):
    """The producer of the executed motion of a control step: the policy, the human, or nobody."""

    POLICY = 0
    HUMAN = 1
    HOLD = 2
    """Nobody: the arm held its pose (start, fault, stale input)."""
    IDLE = 3
    """The human held control without moving after a correction: executed, but no expert data."""


IN_HAND = (Source.HUMAN, Source.IDLE)
"""An operator has the arm, moving it or holding it still."""


class Mode(StrEnum):
    """The state of control of a cell, by the same words in code, log and banner."""

    DISARMED = "DISARMED"
    READY = "READY"
    POLICY = "POLICY"
    HUMAN = "HUMAN"
    HOLD = "HOLD"
    STOP = "STOP"


MOVING_MODES = (Mode.POLICY, Mode.HUMAN)
"""Somebody drives; in every other mode an arm stands, or brakes."""


class Clamp(StrEnum):
    """A limit that can change a command; the order is that of the bits by which a label names them."""

    WORKSPACE = "workspace"
    TILT = "tilt"
    FORCE = "force"
    SPEED = "speed"
    ACCELERATION = "acceleration"
    JERK = "jerk"
    JOINTS = "joints"
    CLEARANCE = "clearance"
    YAW = "yaw"
    TORQUE = "torque"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request to move one arm.

    Attributes:
        arm: Name of the arm.
        twist: float64, shape (6,), m/s and rad/s, in `frame`.
        frame: "tcp" (end-effector frame) or "base".
        gripper: Wanted opening in [0, 1] (0 closed), or None to leave it.
        stamp_ns: When it was made, on the monotonic clock of this machine.
        source: POLICY or HUMAN.
        session: Which process sent it, an id drawn anew at each of its starts; "" where it does not say.
    """

    arm: str
    twist: np.ndarray
    frame: str = "tcp"
    gripper: float | None = None
    stamp_ns: int
    source: Source
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The motion wanted of an arm at a tick, before any limit: twist (6,) in the tcp frame, gripper and source."""

    twist: np.ndarray
    gripper: float | None = None
    source: Source = Source.HOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The safety filter's decision at one of its ticks: the command it lets through, and why it holds or is stopped.

    Attributes:
        command: Always safe to execute; zero twist when holding.
        mode: State after this tick.
        source: Who the motion belongs to.
        requested: The twist asked for before any limit, shape (6,), tcp frame; zeros when nobody asked.
        clamped: The limits that changed the command.
        reason: Why it holds or is stopped.
    """

    command: Command
    mode: Mode
    source: Source
    requested: np.ndarray
    clamped: tuple[Clamp, ...] = ()
    reason: Refusal | None = None
