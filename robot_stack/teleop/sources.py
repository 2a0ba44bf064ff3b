"""Readers of the devices on this machine, from their configuration. Nothing is opened before it is polled."""

from __future__ import annotations

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
from robot_stack.config.teleop_parts import GripperTopic, JoyButtons, Match, PedalConfig, SideKeyboard, Triggers
from robot_stack.teleop.chain import Chain, Link
from robot_stack.teleop.evdev_port import load_evdev, open_event_device
from robot_stack.teleop.hid_port import load_hid, open_spacemouse
from robot_stack.teleop.hotplug import HotPlug, Port, in_thread
from robot_stack.teleop.input_events import (
    GAMEPAD_KEYS,
    InputEvents,
    codes_of,
    gamepad_actions,
    keyboard_actions,
    pedal_actions,
)
from robot_stack.teleop.match import Wanted
from robot_stack.teleop.messages import Grip, GripMessages, JointPacket, JoyMessages, JoyPacket, LeaderMessages
from robot_stack.teleop.readers import MessageReader, PortReader
from robot_stack.teleop.reading import Reader
from robot_stack.teleop.spacemouse import SpaceMouseReports
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose

ValueT = TypeVar("ValueT")
WHOLE_PERCENT = 100.0
"""What an open grip reads, by LeRobot's calibration."""


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
) -> Reader:
    library, wanted = machine.evdev(), _wanted(match)
    keys = codes_of(actions if needed is None else needed)
    InputEvents(actions, axes)  # names are checked before anything is opened
    plug = HotPlug(
        lambda: open_event_device(library, what, wanted, keys=keys, grab=grab, bluetooth=bluetooth), machine.start
    )
    return PortReader(what, plug, lambda: InputEvents(actions, axes))


def _by_name(mapping: Mapping[Any, ValueT]) -> dict[str, ValueT]:
    return {str(key): value for key, value in mapping.items()}


def _pulled(triggers: Triggers) -> dict[str, tuple[int, float]]:
    return {str(action): (trigger.axis, trigger.above) for action, trigger in triggers.items()}


def _same_pose(before: Pose | JointPacket, after: Pose | JointPacket) -> bool:
    """Return whether two poses are the same bit for bit: a hand is never as still as that."""
    if not isinstance(before, Pose) or not isinstance(after, Pose):
        return False
    same_place = np.array_equal(before.position_m, after.position_m)
    return same_place and np.array_equal(before.quaternion_xyzw, after.quaternion_xyzw)


def _wanted(match: Match) -> Wanted:
    return Wanted(**match.model_dump())
