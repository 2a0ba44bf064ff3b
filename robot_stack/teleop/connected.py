"""Devices for an operator's hand that are connected to this machine, and what kind each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from robot_stack.teleop.evdev_port import event_devices, load_evdev, unreadable
from robot_stack.teleop.hid_port import load_hid, motion_interfaces
from robot_stack.teleop.input_events import EV_ABS, EV_KEY
from robot_stack.types.errors import RobotError

BTN_GAMEPAD, KEY_A, KEY_Z, KEY_SPACE = 0x130, 30, 44, 57
ABS_X, ABS_Y = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedDevice:
    """A device that is connected.

    Attributes:
        kind: "spacemouse", "gamepad", "keyboard", or "buttons" of what has a few keys, such as a pedal.
        name: As its maker calls it.
        usb: "vendor:product".
    """

    kind: str
    name: str
    usb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedDevices:
    """The devices that are connected.

    Attributes:
        devices: Each once.
        hidden: What may be connected and could not be looked at, one sentence each, with what to do.
    """

    devices: tuple[ConnectedDevice, ...]
    hidden: tuple[str, ...]


def connected_devices(evdev: Callable[[], Any] = load_evdev, hid: Callable[[], Any] = load_hid) -> ConnectedDevices:
    """List the gamepads, keyboards, pedals and SpaceMice of this machine."""
    found: dict[ConnectedDevice, None] = {}
    hidden = []
    try:
        library = evdev()
        for identity, capabilities in event_devices(library):
            kind = _kind(capabilities)
            if kind:
                found[ConnectedDevice(kind=kind, name=identity.name, usb=identity.usb)] = None
        if (count := unreadable(library)) > 0:
            hidden.append(f"{count} input devices may not be read; add the udev rule of docs/teleop.md")
    except RobotError as error:
        hidden.append(str(error))
    try:
        for identity, _ in motion_interfaces(hid()):
            found[ConnectedDevice(kind="spacemouse", name=identity.name, usb=identity.usb)] = None
    except (RobotError, OSError) as error:
        hidden.append(str(error))
    return ConnectedDevices(devices=tuple(found), hidden=tuple(hidden))


def _kind(capabilities: dict[int, list[Any]]) -> str:
    """Return the kind of a device from its keys and axes; "" of one that cannot be used."""
    keys = {each for each in capabilities.get(EV_KEY, []) if isinstance(each, int)}
    axes = {each[0] if isinstance(each, tuple) else each for each in capabilities.get(EV_ABS, [])}
    if BTN_GAMEPAD in keys and {ABS_X, ABS_Y} <= axes:
        return "gamepad"
    if {KEY_A, KEY_Z, KEY_SPACE} <= keys:
        return "keyboard"
    return "buttons" if any(KEY_A <= key <= KEY_SPACE for key in keys) else ""
