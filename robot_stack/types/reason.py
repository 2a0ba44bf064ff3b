"""Reasons of refusals, holds and faults: a kind, which decides, and a text, which only explains.

Functions that judge return one of these, or None where nothing is wrong: `first() or second()` is the first objection.
No branch reads a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

KindT = TypeVar("KindT", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason(Generic[KindT]):
    """A reason of one of several kinds.

    Attributes:
        kind: What decides.
        text: A plain sentence with what to do, for people.
    """

    kind: KindT
    text: str

    def __str__(self) -> str:
        return self.text


class FaultKind(StrEnum):
    """The kind of a fault that a robot or its driver reports; its name is what is sent."""

    EMERGENCY_STOP = "emergency stop"
    """Somebody pressed the robot's own emergency stop: latches STOP. Every other kind is a HOLD."""
    PROTECTIVE_STOP = "protective stop"
    """The robot's own safety controller stopped it; an operator clears it there."""
    DRIVER_ERROR = "driver error"
    """The driver or its controller refuses motion until an operator recovers it: a reflex, a halt, a lost program."""
    NOT_READY = "not ready"
    """The driver waits for something that needs no recovery: a program, a mode, a pause."""
    INPUT_MISSING = "input missing"
    """A topic that the arm needs has never been heard."""
    INPUT_STALE = "input stale"
    """A topic that the arm needs has gone silent."""
    INPUT_INVALID = "input invalid"
    """A message of the driver cannot be used."""
    CONTRADICTION = "contradiction"
    """The driver says something else than the robot file: units, type, frame, controller, rate, pose."""
    COMMAND_UNHEARD = "command unheard"
    """Nobody listens on a topic of commands."""
    SECOND_SENDER = "second sender"
    """Two safety processes command one arm, or a stranger does; or two publishers tell its state."""
    TRACKING = "tracking"
    """The arm does not do what it is told."""
    SIMULATOR = "simulator"
    """The simulated world broke."""


class Fault(Reason[FaultKind]):
    """A reason not to move an arm, as its driver or the process in front of it says."""

    __slots__ = ()


class RefusalKind(StrEnum):
    """The kind of a reason for which the safety filter refuses a message or a request, or holds."""

    MALFORMED = "malformed"
    """Not finite, of a wrong length, frame, type or arm."""
    OVERSIZED = "oversized"
    """Larger than any honest message of its topic."""
    FLOODED = "flooded"
    """Messages come faster than any honest sender sends them."""
    UNSTAMPED = "unstamped"
    STALE = "stale"
    """Older than its timeout."""
    FUTURE = "future"
    REPEATED = "repeated"
    """Not newer than the one before: a replay, or a republished message."""
    FOREIGN = "foreign"
    """Its seal does not fit: not from a process of this run."""
    SECOND_SENDER = "second sender"
    """Two processes of this run send on one topic."""
    WRONG_MODE = "wrong mode"
    """The state of control does not allow the request."""
    NOT_ACTIVE = "not active"
    """The node has not been brought up."""
    JUST_STALLED = "just stalled"
    """The safety process stood still; what waited in its queues meanwhile is not obeyed."""
    STATE_MISSING = "state missing"
    STATE_STALE = "state stale"
    ROBOT_FAULT = "robot fault"
    EMERGENCY_STOP = "emergency stop"
    """By key, service, wired button, or the robot itself."""
    STOP_INPUT_HELD = "stop input held"
    STOP_INPUT_SILENT = "stop input silent"
    OPERATOR_ABSENT = "operator absent"
    POLICY_SILENT = "policy silent"
    BASE_SILENT = "base silent"
    """The base policy has said nothing that is about now."""
    BASE_INVALID = "base invalid"
    """An answer of the base policy cannot be used."""
    TELEOP_SILENT = "teleop silent"
    TELEOP_LOST = "teleop lost"
    """The device says itself that it is gone."""
    DEADMAN_HELD = "deadman held"
    MOVING = "moving"
    """The arm must stand still first."""
    FORCE = "force"
    TORQUE = "torque"
    JOINT_RANGE = "joint range"
    OUTSIDE = "outside"
    """A part of the arm is where none may be."""
    TRACKING = "tracking"
    """The arm does not do what it is told."""
    CLOCK = "clock"
    """Stamps of another clock, or a clock that jumped."""
    WIRING = "wiring"
    """A publisher that cannot be heard, or that there is none of."""
    LIMIT = "limit"
    """A limit that may not be set."""
    DISK = "disk"
    KEY = "key"
    """An operator pressed a key of a teleop device or of the page."""
    SERVICE = "service"
    """Somebody called a service."""
    ENDING = "ending"
    """A process ends."""


class Refusal(Reason[RefusalKind]):
    """A reason for which the safety filter refuses a message or a request, or holds, or nobody can act."""

    __slots__ = ()
