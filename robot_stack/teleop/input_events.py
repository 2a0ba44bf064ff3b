"""The decoder of Linux input events of gamepads, keyboards and pedals. Pure; the port is read elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.teleop.bindings import BINDINGS, MOTIONS, Device
from robot_stack.teleop.input_codes import AXES, EV_ABS, EV_KEY, axis_code, key_code
from robot_stack.teleop.reading import KeyState, Reading
from robot_stack.types.errors import RobotError
from robot_stack.types.spec import AXES as TWIST_AXES

RELEASED, PRESSED, REPEATED = 0, 1, 2
TRIGGERS = {"ABS_Z": "BTN_TL2", "ABS_RZ": "BTN_TR2"}
"""Many gamepads have analog triggers where others have these buttons; pulled half way they are pressed."""
PULLED = 0.5
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

    def push(self, packet: Snapshot | Change) -> None:
        """Take the next event of the device.

        Raises:
            RobotError: If a key is neither up nor down.
        """
        if isinstance(packet, Snapshot):
            self._down, self._states = set(packet.keys), dict(packet.axes)
            self._keys.already(self._held())
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
    table = {f"KEY_{key.upper()}": action for action, key in BINDINGS[Device.KEYBOARD].items()}
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
