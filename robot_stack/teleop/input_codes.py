"""Names and numbers of Linux input events, as far as they are used here.

Source: linux/input-event-codes.h and linux/input.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from robot_stack.types.errors import ConfigError

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
