"""Readers of the devices on this machine, from their configuration. Nothing is opened before it is polled."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from robot_stack.config.teleop import (
    GamepadTeleop,
    JoyTeleop,
    KeyboardTeleop,
    LeaderTeleop,
    So101LeaderTeleop,
    SpaceMouseTeleop,
)
from robot_stack.config.teleop_parts import Alive, GripperTopic, JoyButtons, Match, PedalConfig, SideKeyboard, Triggers
from robot_stack.teleop.bindings import BINDINGS, Device
from robot_stack.teleop.evdev_port import load_evdev, open_event_device
from robot_stack.teleop.hid_port import load_hid, open_spacemouse
from robot_stack.teleop.input_events import (
    GAMEPAD_KEYS,
    InputEvents,
    codes_of,
    gamepad_actions,
    keyboard_actions,
    pedal_actions,
)
from robot_stack.teleop.match import Wanted
from robot_stack.teleop.messages import (
    AliveMessages,
    Chain,
    Grip,
    GripMessages,
    JointPacket,
    JoyMessages,
    JoyPacket,
    LeaderMessages,
    Link,
    Pull,
)
from robot_stack.teleop.readers import HotPlug, MessageReader, Port, PortReader, in_thread
from robot_stack.teleop.reading import KeyState, Reader, Reading, check_axes
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose

TRANSLATION, ROTATION, BUTTONS = 1, 2, 3
HALF, WHOLE = 6, 12
"""Bytes of three and of six counts."""
MOST_BUTTON_BYTES = 12
TO_HAND = (1, 0, 2, 4, 3, 5)
"""The device counts right, towards the operator and down; a hand is meant forward, left and up: swap x, y, negate all.
That is a proper rotation, so the turns change alike."""

BUTTON_BITS: Mapping[int, str] = {
    0: "BTN_0", 1: "BTN_1", 12: "BTN_K1", 13: "BTN_K2", 14: "BTN_K3", 15: "BTN_K4",
    22: "BTN_ESC", 23: "BTN_ALT", 24: "BTN_SHIFT", 25: "BTN_CTRL",
}  # fmt: skip
"""Bit -> button. 0 and 1 are left and right on small devices, Menu and Fit on the Pro; the others only the Pro has."""

ACTIONS: Mapping[int, str] = {
    bit: action
    for bit, button in BUTTON_BITS.items()
    for action, bound in BINDINGS[Device.SPACEMOUSE].items()
    if bound == button
}
"""Bit -> what its button means."""
WHOLE_PERCENT = 100.0
"""What an open grip reads, by LeRobot's calibration."""


class SpaceMouseReports:
    """A decoder of the HID reports of one SpaceMouse or another 3Dconnexion device.

    Report 1 holds the translation, as three little-endian 16-bit counts, and report 2 the rotation (SpaceNavigator,
    SpaceMouse Compact and Pro); or report 1 holds all six (SpaceMouse Wireless, Pro Wireless, receivers). Report 3 is a
    bit per button. Other reports (battery, vendor's own) say nothing about the hand. While the cap is off its centre,
    reports come every 8 ms with a cable and every 16 ms without, also if nothing changes; back at the centre, zeros
    come three times, then nothing.

    Source: report descriptors and traffic of a SpaceNavigator and a SpaceMouse Wireless as published in the
    documentation of github.com/AndunHH/spacemouse, and the device table of github.com/JakubAndrysek/PySpaceMouse.
    """

    def __init__(self, full_count: int = 350) -> None:
        """Start at rest, with no button down."""
        self._full = full_count
        self._counts = np.zeros(6)
        self._keys = KeyState()

    def push(self, report: bytes) -> None:
        """Take the next report, its number first.

        Raises:
            RobotError: If a report that matters has a length that it cannot have, or counts far beyond its range.
        """
        number, size = (report[0], len(report) - 1) if report else (0, -1)
        if number == TRANSLATION and size in (HALF, WHOLE):
            self._counts[: size // 2] = struct.unpack(f"<{size // 2}h", report[1:])
        elif number == ROTATION and size == HALF:
            self._counts[3:] = struct.unpack("<3h", report[1:])
        elif number == BUTTONS and 1 <= size <= MOST_BUTTON_BYTES:
            bits = int.from_bytes(report[1:], "little")
            self._keys.now(frozenset(action for bit, action in ACTIONS.items() if bits >> bit & 1))
        elif number in (TRANSLATION, ROTATION, BUTTONS) or size < 0:
            raise RobotError(
                f"report {number} of the SpaceMouse has {size} bytes, must have {HALF} or {WHOLE} for motion and "
                f"1 to {MOST_BUTTON_BYTES} for buttons; replug it"
            )
        check_axes(self._counts / self._full)

    def reading(self) -> Reading:
        """Return the deflection of the cap and the buttons now."""
        axes = -self._counts[list(TO_HAND)] / self._full
        return Reading(axes=axes, held=self._keys.held, tapped=self._keys.taps())


ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The means to reach devices: libraries, loaded where one is needed, and a way to open beside the loop."""

    hid: Callable[[], Any] = load_hid
    evdev: Callable[[], Any] = load_evdev
    servos: Callable[[So101LeaderTeleop], Port[JointPacket]] | None = None
    start: Callable[[Callable[[], None]], None] = in_thread


def spacemouse_reader(config: SpaceMouseTeleop, machine: Machine) -> Reader:
    """Build the reader of a SpaceMouse.

    Raises:
        RobotError: If the library is missing.
    """
    library, wanted = machine.hid(), _wanted(config.match)
    plug = HotPlug(lambda: open_spacemouse(library, wanted), machine.start)
    return PortReader("spacemouse", plug, lambda: SpaceMouseReports(config.full_count), silence_s=config.silence_s)


def gamepad_reader(config: GamepadTeleop, machine: Machine) -> Reader:
    """Build the reader of a gamepad.

    Raises:
        RobotError: If the library is missing.
        ConfigError: If it names an axis that there is not.
    """
    return _event_reader(
        "gamepad",
        config.match,
        gamepad_actions(),
        machine,
        needed=GAMEPAD_KEYS,
        axes=_by_name(config.axes),
        bluetooth=config.bluetooth,
        numbered=False,
    )


def keyboard_reader(config: KeyboardTeleop | SideKeyboard, machine: Machine) -> Reader:
    """Build the reader of a keyboard; beside another device without its keys for motion.

    Raises:
        RobotError: If the library is missing.
    """
    actions = keyboard_actions(motion=isinstance(config, KeyboardTeleop))
    return _event_reader("keyboard", config.match, actions, machine, grab=config.grab)


def pedal_reader(config: PedalConfig, machine: Machine) -> Reader:
    """Build the reader of pedals, taken from the desktop, where their keys would type letters.

    Raises:
        RobotError: If the library is missing.
        ConfigError: If it names a key that there is not.
    """
    return _event_reader("pedal", config.match, pedal_actions(_by_name(config.keys)), machine, grab=True)


def joy_reader(config: JoyTeleop) -> MessageReader[JoyPacket]:
    """Build the reader of a foreign node that publishes a Joy with axes."""
    axes, buttons, triggers = _by_name(config.axes), _by_name(config.buttons), _pulled(config.triggers)
    return MessageReader(
        f"joy on {config.topic}", lambda: JoyMessages(axes, buttons, config.full, triggers), config.timeout_s
    )


def alive_reader(config: Alive) -> MessageReader[Pose]:
    """Build the reader of the pose that shows whether the device of a Joy is still there."""
    name = f"device behind {config.topic}"
    return MessageReader(name, AliveMessages, config.timeout_s, freeze_s=config.freeze_s, same=_same_pose)


def buttons_reader(config: JoyButtons) -> MessageReader[JoyPacket]:
    """Build the reader of the buttons of a foreign node."""
    buttons, triggers = _by_name(config.buttons), _pulled(config.triggers)
    return MessageReader(
        f"joy on {config.topic}", lambda: JoyMessages({}, buttons, triggers=triggers), config.timeout_s
    )


def grip_reader(config: GripperTopic) -> MessageReader[float]:
    """Build the reader of the topic that a leader arm has for its grip alone."""
    return MessageReader(f"grip on {config.topic}", lambda: GripMessages(config.closed, config.open), config.timeout_s)


def leader_reader(config: LeaderTeleop) -> MessageReader[Pose | JointPacket]:
    """Build the reader of a leader arm, or of a handle whose pose is tracked."""
    chain = Chain([Link(**joint.model_dump()) for joint in config.joints], config.tip_m) if config.joints else None
    grip = Grip(**config.gripper.model_dump()) if config.gripper is not None else None
    return MessageReader(
        f"leader on {config.topic}",
        lambda: LeaderMessages(chain, config.max_jump_m, grip),
        config.timeout_s,
        freeze_s=config.freeze_s,
        same=_same_pose,
    )


def so101_reader(config: So101LeaderTeleop, machine: Machine) -> Reader:
    """Build the reader of an SO-101 leader at a serial port.

    Raises:
        RobotError: If this process cannot reach servos.
    """
    if machine.servos is None:
        raise RobotError("way to the servos is missing, must be given for a so101_leader; run it in the teleop process")
    open_servos = machine.servos
    chain = Chain([Link(**joint.model_dump()) for joint in config.joints], config.tip_m)
    grip = None if config.gripper is None else Grip(joint=config.gripper, closed_rad=0.0, open_rad=WHOLE_PERCENT)
    plug = HotPlug(lambda: open_servos(config), machine.start)
    return PortReader("so101 leader", plug, lambda: LeaderMessages(chain, config.max_jump_m, grip))


def _event_reader(
    what: str,
    match: Match,
    actions: Mapping[str, str],
    machine: Machine,
    *,
    needed: Iterable[str] | None = None,
    axes: Mapping[str, str] | None = None,
    grab: bool = False,
    bluetooth: bool = True,
    numbered: bool = True,
) -> Reader:
    library, wanted = machine.evdev(), _wanted(match)
    keys = codes_of(actions if needed is None else needed)
    InputEvents(actions, axes)  # names are checked before anything is opened
    plug = HotPlug(
        lambda: open_event_device(library, what, wanted, keys=keys, grab=grab, bluetooth=bluetooth, numbered=numbered),
        machine.start,
    )
    return PortReader(what, plug, lambda: InputEvents(actions, axes))


def _by_name(mapping: Mapping[Any, ValueT]) -> dict[str, ValueT]:
    return {str(key): value for key, value in mapping.items()}


def _pulled(triggers: Triggers) -> dict[str, Pull]:
    return {str(action): Pull(**trigger.model_dump()) for action, trigger in triggers.items()}


def _same_pose(before: Pose | JointPacket, after: Pose | JointPacket) -> bool:
    """Return whether two poses are the same bit for bit: a hand is never as still as that."""
    if not isinstance(before, Pose) or not isinstance(after, Pose):
        return False
    same_place = np.array_equal(before.position_m, after.position_m)
    return same_place and np.array_equal(before.quaternion_xyzw, after.quaternion_xyzw)


def _wanted(match: Match) -> Wanted:
    return Wanted(**match.model_dump())
