"""The decoder of Linux input events of gamepads, keyboards and pedals. Pure; the port is read elsewhere.

Source: linux/input-event-codes.h and linux/input.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.teleop.bindings import BINDINGS, MOTIONS, Device
from robot_stack.teleop.reading import KeyState, Reading
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.spec import AXES as TWIST_AXES

EV_SYN, EV_KEY, EV_ABS = 0x00, 0x01, 0x03
SYN_REPORT, SYN_DROPPED = 0, 3
BUS_BLUETOOTH = 0x05


def _row(first: int, names: str | Iterable[str], prefix: str = "KEY_") -> dict[str, int]:
    return {f"{prefix}{name}": first + index for index, name in enumerate(names)}


KEYS: Mapping[str, int] = {
    "KEY_ESC": 1,
    **_row(2, "1234567890"),
    "KEY_BACKSPACE": 14,
    "KEY_TAB": 15,
    **_row(16, "QWERTYUIOP"),
    "KEY_ENTER": 28,
    "KEY_LEFTCTRL": 29,
    **_row(30, "ASDFGHJKL"),
    "KEY_LEFTSHIFT": 42,
    **_row(44, "ZXCVBNM"),
    "KEY_RIGHTSHIFT": 54,
    "KEY_LEFTALT": 56,
    "KEY_SPACE": 57,
    **_row(59, (f"F{number}" for number in range(1, 11))),
    **_row(71, ("KP7", "KP8", "KP9", "KPMINUS", "KP4", "KP5", "KP6", "KPPLUS", "KP1", "KP2", "KP3", "KP0", "KPDOT")),
    **_row(87, ("F11", "F12")),
    "KEY_KPENTER": 96,
    "KEY_RIGHTCTRL": 97,
    "KEY_RIGHTALT": 100,
    **_row(102, ("HOME", "UP", "PAGEUP", "LEFT", "RIGHT", "END", "DOWN", "PAGEDOWN", "INSERT", "DELETE")),
    **_row(183, (f"F{number}" for number in range(13, 25))),
    **_row(0x100, "0123456789", "BTN_"),
    **_row(0x110, ("LEFT", "RIGHT", "MIDDLE", "SIDE", "EXTRA"), "BTN_"),
    **_row(0x130, ("SOUTH", "EAST", "C", "NORTH", "WEST", "Z", "TL", "TR", "TL2", "TR2", "SELECT", "START"), "BTN_"),
    **_row(0x13C, ("MODE", "THUMBL", "THUMBR"), "BTN_"),
    **_row(0x220, ("DPAD_UP", "DPAD_DOWN", "DPAD_LEFT", "DPAD_RIGHT"), "BTN_"),
}
"""Keys and buttons."""

AXES: Mapping[str, int] = {
    **_row(0x00, ("X", "Y", "Z", "RX", "RY", "RZ", "THROTTLE", "RUDDER", "WHEEL", "GAS", "BRAKE"), "ABS_"),
    **_row(0x10, ("HAT0X", "HAT0Y", "HAT1X", "HAT1Y"), "ABS_"),
}
"""Absolute axes."""


def key_code(name: str) -> int:
    """Return the number of a key by its name.

    Raises:
        ConfigError: If no key here has that name.
    """
    return _code("key", name, KEYS)


def axis_code(name: str) -> int:
    """Return the number of an axis by its name.

    Raises:
        ConfigError: If no axis here has that name.
    """
    return _code("axis", name, AXES)


def _code(what: str, name: str, codes: Mapping[str, int]) -> int:
    if name not in codes:
        raise ConfigError(f"{what} is {name!r}, must be one of {', '.join(codes)}; correct the teleop file")
    return codes[name]


RELEASED, PRESSED, REPEATED = 0, 1, 2
TRIGGERS = {"ABS_Z": "BTN_TL2", "ABS_RZ": "BTN_TR2"}
"""Many gamepads have analog triggers where others have these buttons; pulled half way they are pressed."""
PULLED = 0.5
TWICE = {"shift": ("LEFTSHIFT", "RIGHTSHIFT")}
"""Key of the key table -> those that a keyboard has of it."""
GAMEPAD_KEYS = ("BTN_SOUTH", "BTN_TL", "BTN_TR")
"""What every gamepad has; not all have the others of the key table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisState:
    """The value of an absolute axis and the range the kernel gives for it."""

    value: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of all keys and axes of a device, taken at the start and after events were dropped."""

    keys: frozenset[int] = frozenset()
    axes: Mapping[int, AxisState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a key or an axis: a `struct input_event`, its time aside."""

    kind: int
    code: int
    value: int


class InputEvents:
    """A decoder of the events of one device."""

    def __init__(self, actions: Mapping[str, str], axes: Mapping[str, str] | None = None) -> None:
        """Start at rest, with the meaning of each key and axis.

        Args:
            actions: Key -> action, e.g. "BTN_TL" -> "deadman". An action such as "x+" is a full deflection.
            axes: Axis of the twist -> axis of the device, e.g. "x" -> "ABS_Y".

        Raises:
            ConfigError: If a key or an axis is none.
        """
        self._actions = {key_code(key): action for key, action in actions.items()}
        self._axes = {TWIST_AXES.index(axis): axis_code(name) for axis, name in (axes or {}).items()}
        self._triggers = {
            AXES[axis]: actions[button]
            for axis, button in TRIGGERS.items()
            if axes is not None and axis not in axes.values() and button in actions
        }
        self._down: set[int] = set()
        self._states: dict[int, AxisState] = {}
        self._keys = KeyState()
        self._first = True

    def push(self, packet: Snapshot | Change) -> None:
        """Take the next event of the device.

        Raises:
            RobotError: If a key is neither up nor down.
        """
        if isinstance(packet, Snapshot):
            self._down, self._states = set(packet.keys), dict(packet.axes)
            (self._keys.already if self._first else self._keys.now)(self._held())
            self._first = False
        elif packet.kind == EV_KEY:
            if packet.value not in (RELEASED, PRESSED, REPEATED):
                raise RobotError(f"key {packet.code} has value {packet.value}, must be 0, 1 or 2; replug the device")
            (self._down.discard if packet.value == RELEASED else self._down.add)(packet.code)
            self._keys.now(self._held())
        elif packet.kind == EV_ABS and packet.code in self._states:
            before = self._states[packet.code]
            self._states[packet.code] = AxisState(value=packet.value, low=before.low, high=before.high)
            self._keys.now(self._held())

    def reading(self) -> Reading:
        """Return the axes and keys now.

        Raises:
            RobotError: If an axis that is asked for is missing or has no range.
        """
        axes = np.zeros(6)
        for index, code in self._axes.items():
            axes[index] = 2.0 * self._share(code) - 1.0
        held = self._keys.held
        for motion in held & set(MOTIONS):
            axes[TWIST_AXES.index(motion[:-1])] += 1.0 if motion[-1] == "+" else -1.0
        return Reading(axes=axes, held=held, tapped=self._keys.taps())

    def _held(self) -> frozenset[str]:
        held = {action for code, action in self._actions.items() if code in self._down}
        pulled = {action for code, action in self._triggers.items() if self._pulled(code)}
        return frozenset(held | pulled)

    def _pulled(self, code: int) -> bool:
        return code in self._states and self._share(code) > PULLED

    def _share(self, code: int) -> float:
        """Return where an axis is in its range, 0 to 1."""
        state = self._states.get(code)
        if state is None or state.low >= state.high:
            name = next(name for name, number in AXES.items() if number == code)
            have = "missing" if state is None else f"{state.low} to {state.high}"
            raise RobotError(f"range of axis {name} is {have}, must be rising; give another axis in the teleop file")
        return (state.value - state.low) / (state.high - state.low)


def keyboard_actions(*, motion: bool) -> dict[str, str]:
    """Return key -> action of a keyboard; without those that move the arm where it lies beside another device."""
    table = {
        f"KEY_{name}": action
        for action, key in BINDINGS[Device.KEYBOARD].items()
        for name in TWICE.get(key, (key.upper(),))
    }
    return {key: action for key, action in table.items() if motion or action not in MOTIONS}


def gamepad_actions() -> dict[str, str]:
    """Return button -> action of a gamepad."""
    return {button: action for action, button in BINDINGS[Device.GAMEPAD].items()}


def pedal_actions(keys: Mapping[str, str]) -> dict[str, str]:
    """Return key -> action of pedals, from pedal -> key."""
    return {keys[pedal]: action for action, pedal in BINDINGS[Device.PEDAL].items() if pedal in keys}


def codes_of(keys: Iterable[str]) -> frozenset[int]:
    """Return the numbers of keys, by their names."""
    return frozenset(key_code(key) for key in keys)
