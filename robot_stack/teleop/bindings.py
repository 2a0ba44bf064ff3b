"""The one key table, for every device. Esc holds, always, and does nothing else; no label shares a key with a stop.

Key names: printable keys in lower case, "esc", "space", "enter", "backspace", arrows "up" to "right"; evdev names for
gamepad buttons, of the four in a cross by their places, BTN_NORTH for the upper one; BTN_0 and BTN_1 for the left and
right button of a SpaceMouse (Menu and Fit on the Pro), BTN_K1 to K4 and so on for those that only the Pro has; "left",
"middle", "right" for the three pedals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from robot_stack.types.errors import SpecError
from robot_stack.types.robot import EVENTS
from robot_stack.types.spec import AXES


class Device(StrEnum):
    """The kind of device that an operator holds or presses."""

    KEYBOARD = "keyboard"
    BROWSER = "browser"
    GAMEPAD = "gamepad"
    SPACEMOUSE = "spacemouse"
    PEDAL = "pedal"


CONTROLS = ("deadman", "fine", "gripper_close", "gripper_open")
MOTIONS = tuple(f"{axis}{sign}" for axis in AXES for sign in "+-")

MEANING = {
    "success": "episode succeeded",
    "failure": "episode failed",
    "discard": "throw the episode away",
    "hold": "hold still, now",
    "stop": "stop, latched",
    "reset_done": "scene is ready again",
    "arm": "arm, or resume after a hold",
    "next_arm": "drive the next arm, where there are several",
    "dismiss": "let the policy go on, which asks for help",
    "stage": "the next stage of the task begins",
    "deadman": "keep pressed to be in control",
    "fine": "a quarter as fast while it is held",
    "gripper_close": "close gripper",
    "gripper_open": "open gripper",
}

_LABELS = {
    "success": "s", "failure": "f", "discard": "d", "hold": "esc", "reset_done": "r", "dismiss": "x", "stage": "g",
}  # fmt: skip

BINDINGS: Mapping[Device, Mapping[str, str]] = {
    Device.KEYBOARD: {
        **_LABELS,
        "stop": "backspace",
        "arm": "enter",
        "next_arm": "tab",
        "deadman": "space",
        "fine": "shift",
        "gripper_close": "c",
        "gripper_open": "v",
        "x+": "i",
        "x-": "k",
        "y+": "j",
        "y-": "l",
        "z+": "u",
        "z-": "o",
        "rx+": "left",
        "rx-": "right",
        "ry+": "up",
        "ry-": "down",
        "rz+": "n",
        "rz-": "m",
    },
    Device.BROWSER: _LABELS,
    Device.GAMEPAD: {
        "success": "BTN_WEST",
        "failure": "BTN_EAST",
        "discard": "BTN_NORTH",
        "hold": "BTN_SELECT",
        "stop": "BTN_MODE",
        "reset_done": "BTN_SOUTH",
        "arm": "BTN_START",
        "next_arm": "BTN_THUMBR",
        "dismiss": "BTN_THUMBL",
        "stage": "BTN_TL2",
        "deadman": "BTN_TL",
        "gripper_close": "BTN_TR",
        "gripper_open": "BTN_TR2",
    },
    Device.SPACEMOUSE: {
        "success": "BTN_K1",
        "failure": "BTN_K2",
        "discard": "BTN_K3",
        "hold": "BTN_ESC",
        "reset_done": "BTN_K4",
        "arm": "BTN_CTRL",
        "next_arm": "BTN_ALT",
        "dismiss": "BTN_SHIFT",
        "gripper_close": "BTN_0",
        "gripper_open": "BTN_1",
    },
    Device.PEDAL: {"hold": "left", "deadman": "middle", "reset_done": "right"},
}
"""Device -> action -> key. Gamepad sticks and the SpaceMouse cap move the arm by axes, not keys; moving the SpaceMouse
is its deadman, unless its file names a pedal or a keyboard."""


def key_of(device: Device, action: str) -> str:
    """Return the key to press for an action.

    Raises:
        SpecError: If that device has no key for it.
    """
    if action not in BINDINGS[device]:
        raise SpecError(f"action is {action!r}, must be one of {sorted(BINDINGS[device])} on a {device}")
    return BINDINGS[device][action]


def table(devices: Iterable[Device]) -> str:
    """Format the key table as text, one line per action, as printed at the start of a run."""
    chosen = list(devices)
    rows = [["", *chosen, ""]]
    for action in (*EVENTS, *CONTROLS, *MOTIONS):
        keys = [BINDINGS[device].get(action, "") for device in chosen]
        if any(keys):
            rows.append([action, *keys, MEANING.get(action, "move")])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
