r"""Decoders of what foreign nodes publish: Joy by an axis map, and poses or joints of a leader arm. Pure.

The pose of a leader arm follows from its Denavit-Hartenberg rows,

.. math:: {}^{i-1}T_i = R_x(\alpha_{i-1})\, D_x(a_{i-1})\, R_z(\theta_i)\, D_z(d_i)

Source: Craig, Introduction to Robotics, 3rd ed., eq. 3.6 (modified parameters, as arm makers print them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.teleop.reading import KeyState, Reading, check_axes
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose, turn_between
from robot_stack.types.spec import AXES


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One joint and the link before it, m and rad; `sign` turns what the joint reports round, before the offset."""

    name: str
    a_m: float = 0.0
    alpha_rad: float = 0.0
    d_m: float = 0.0
    offset_rad: float = 0.0
    sign: int = 1


class Chain:
    """The joints of a leader arm, from base to handle."""

    def __init__(self, links: Sequence[Link], tip_m: float = 0.0) -> None:
        """Keep the links of the chain; nothing is moved.

        Args:
            links: From the base on.
            tip_m: From the last joint to the handle, along its axis.
        """
        self._links = tuple(links)
        self._tip_m = tip_m

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the joints, in order."""
        return tuple(link.name for link in self._links)

    def pose(self, joints_rad: Sequence[float]) -> Pose:
        """Return the pose of the handle in the base of the chain, for one angle per joint."""
        position, rotation = np.zeros(3), Rotation.identity()
        for link, angle in zip(self._links, joints_rad, strict=True):
            rotation = rotation * Rotation.from_rotvec([link.alpha_rad, 0.0, 0.0])
            position = position + rotation.apply([link.a_m, 0.0, 0.0])
            rotation = rotation * Rotation.from_rotvec([0.0, 0.0, link.sign * angle + link.offset_rad])
            position = position + rotation.apply([0.0, 0.0, link.d_m])
        return Pose.from_rotation(position + rotation.apply([0.0, 0.0, self._tip_m]), rotation)


LARGEST_TURN_RAD = 0.5
"""Nobody turns a handle further than this between two messages."""
PRESSED, RELEASED = 0.6, 0.5
"""Share of a trigger's way beyond which it is pressed, and up to which it is let go. joy_node sends exactly the middle
of one that nobody has touched yet."""
SQUEEZED, LET_GO = 0.35, 0.65
"""Opening of the grip, 0 to 1, below which it is closed and above which it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """An axis that is pulled like a trigger: its index, and what it reads at its ends."""

    axis: int
    released: float
    pulled: float

    def is_pressed(self, reading: float, before: bool) -> bool:
        """Return whether it is pressed, for one that was or was not before."""
        share = (reading - self.released) / (self.pulled - self.released)
        return share > (RELEASED if before else PRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoyPacket:
    """The axes and buttons of one Joy message."""

    axes: Sequence[float]
    buttons: Sequence[int]


class QuestInputs(Protocol):
    """The message quest2ros/OVR2ROSInputs, which the Quest2ROS app sends of one controller."""

    button_upper: bool
    button_lower: bool
    thumb_stick_horizontal: float
    thumb_stick_vertical: float
    press_index: float
    press_middle: float


def quest_inputs(msg: QuestInputs) -> JoyPacket:
    """Convert the inputs of a Quest controller to axes and buttons of a Joy.

    Axes are stick across, stick along, index finger, grip; buttons are upper (B, Y), lower (A, X).
    """
    return JoyPacket(
        axes=(msg.thumb_stick_horizontal, msg.thumb_stick_vertical, msg.press_index, msg.press_middle),
        buttons=(int(msg.button_upper), int(msg.button_lower)),
    )


class JoyMessages:
    """A decoder of the Joy messages of one sender."""

    def __init__(
        self,
        axes: Mapping[str, int],
        buttons: Mapping[str, int],
        full: float = 1.0,
        triggers: Mapping[str, Pull] | None = None,
    ) -> None:
        """Start at rest, with the meaning of each axis and button.

        Args:
            axes: Axis of the twist -> index in the message.
            buttons: Action -> index in the message.
            full: What an axis reads at full deflection.
            triggers: Action -> the axis that is pulled for it.
        """
        self._triggers = dict(triggers or {})
        self._indices = {AXES.index(axis): index for axis, index in axes.items()}
        self._buttons = dict(buttons)
        self._full = full
        self._axes = np.zeros(6)
        self._keys = KeyState()
        self._first = True

    def push(self, packet: JoyPacket) -> None:
        """Take the next message. A button that it does not have is not pressed: some senders leave out what is up.

        One that is down in the first message is no press: senders remember what was held when the device went away.

        Raises:
            RobotError: If it lacks an axis, or one is no plausible number.
        """
        pulled = [pull.axis for pull in self._triggers.values()]
        missing = [index for index in (*self._indices.values(), *pulled) if index >= len(packet.axes)]
        if missing:
            raise RobotError(f"joy message has {len(packet.axes)} axes, must have axis {max(missing)}; correct the map")
        for axis, index in self._indices.items():
            self._axes[axis] = packet.axes[index] / self._full
        check_axes(self._axes)
        if not np.isfinite([packet.axes[index] for index in pulled]).all():
            raise RobotError(f"triggers of the joy message are {list(packet.axes)}, must be finite; restart its sender")
        down = {a for a, index in self._buttons.items() if index < len(packet.buttons) and packet.buttons[index]}
        for action, pull in self._triggers.items():
            if pull.is_pressed(packet.axes[pull.axis], action in self._keys.held):
                down.add(action)
        (self._keys.already if self._first else self._keys.now)(frozenset(down))
        self._first = False

    def reading(self) -> Reading:
        """Return the axes and buttons now."""
        return Reading(axes=self._axes.copy(), held=self._keys.held, tapped=self._keys.taps())


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPacket:
    """The names and positions, rad, of the joints in one message."""

    names: Sequence[str]
    positions: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """The joint of a handle that stands for the gripper, and what it reports at its ends, rad."""

    joint: str
    closed_rad: float
    open_rad: float


class GripKeys:
    """A grip whose squeezing and letting go count as presses of the gripper's keys."""

    def __init__(self, closed: float, opened: float) -> None:
        """Start with the grip unknown."""
        self.keys = KeyState()
        self._closed, self._opened = closed, opened
        self._squeezed: bool | None = None

    def feel(self, position: float) -> None:
        """Take the next report of the grip. The first one is no press: the hand was there before anybody looked."""
        opening = (position - self._closed) / (self._opened - self._closed)
        if SQUEEZED <= opening <= LET_GO:
            return
        squeezed, known = opening < SQUEEZED, self._squeezed is not None
        if known and squeezed != self._squeezed:
            self.keys.now(frozenset({"gripper_close" if squeezed else "gripper_open"}))
            self.keys.now(frozenset())
        self._squeezed = squeezed


class GripMessages:
    """A decoder of the topic that a leader arm has for its grip alone."""

    def __init__(self, closed: float, opened: float) -> None:
        self._grip = GripKeys(closed, opened)

    def push(self, packet: float) -> None:
        """Take the next message of the grip.

        Raises:
            RobotError: If it is no number.
        """
        if not np.isfinite(packet):
            raise RobotError(f"grip of the leader is {packet}, must be finite; look after its sensors")
        self._grip.feel(packet)

    def reading(self) -> Reading:
        """Return the presses since the last reading."""
        return Reading(axes=np.zeros(6), tapped=self._grip.keys.taps())


class AliveMessages:
    """A decoder of a pose that tells nothing but that the device is there."""

    def push(self, packet: Pose) -> None:
        """Take the next message."""

    def reading(self) -> Reading:
        """Return a reading at rest."""
        return Reading(axes=np.zeros(6))


class LeaderMessages:
    """A decoder of a leader's poses, or joints of a known chain. Squeezing and letting go of the grip are presses."""

    def __init__(self, chain: Chain | None, max_jump_m: float, grip: Grip | None = None) -> None:
        """Start with the pose of the handle unknown.

        Args:
            chain: For joints.
            max_jump_m: Between two messages the handle moves less than this.
            grip: Where the handle has one.
        """
        self._chain = chain
        self._max_jump_m = max_jump_m
        self._grip = grip
        self._feeling = None if grip is None else GripKeys(grip.closed_rad, grip.open_rad)
        self._pose: Pose | None = None

    def push(self, packet: Pose | JointPacket) -> None:
        """Take the next message of the leader.

        Raises:
            RobotError: If a joint is missing or not finite, or if the handle has jumped.
        """
        pose = packet if isinstance(packet, Pose) else self._pose_of(packet)
        if self._pose is not None:
            jump_m = float(np.linalg.norm(pose.position_m - self._pose.position_m))
            turn_rad = float(np.linalg.norm(turn_between(self._pose, pose)))
            if jump_m > self._max_jump_m or turn_rad > LARGEST_TURN_RAD:
                raise RobotError(
                    f"leader has jumped by {jump_m * 1e3:.0f} mm and {turn_rad:.2f} rad, must move at most "
                    f"{self._max_jump_m * 1e3:.0f} mm and {LARGEST_TURN_RAD} rad between messages; check its sensors"
                )
        self._pose = pose

    def reading(self) -> Reading:
        """Return the pose of the handle now, and the presses of its grip."""
        tapped = frozenset[str]() if self._feeling is None else self._feeling.keys.taps()
        return Reading(axes=np.zeros(6), tapped=tapped, pose=self._pose)

    def _pose_of(self, packet: JointPacket) -> Pose:
        if self._chain is None:
            raise RobotError("leader sends joints, must send poses; set follow: joints and give its joints")
        by_name = dict(zip(packet.names, packet.positions))
        wanted = [*self._chain.names, *([self._grip.joint] if self._grip else [])]
        missing = [name for name in wanted if not np.isfinite(by_name.get(name, np.nan))]
        if missing:
            raise RobotError(f"joints of the leader are without {missing}, must all be finite; correct their names")
        if self._grip is not None and self._feeling is not None:
            self._feeling.feel(by_name[self._grip.joint])
        return self._chain.pose([by_name[name] for name in self._chain.names])
