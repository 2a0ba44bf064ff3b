"""The decoder of HID reports of 3Dconnexion devices. Pure; the port is read elsewhere.

Report 1 holds the translation, as three little-endian 16-bit counts, and report 2 the rotation (SpaceNavigator,
SpaceMouse Compact and Pro); or report 1 holds all six (SpaceMouse Wireless, Pro Wireless, receivers). Report 3 is a bit
per button. Other reports (battery, vendor's own) say nothing about the hand. While the cap is off its centre, reports
come every 8 ms with a cable and every 16 ms without, also if nothing changes; back at the centre, zeros come three
times, then nothing.

Source: report descriptors and traffic of a SpaceNavigator and a SpaceMouse Wireless as published in the documentation
of github.com/AndunHH/spacemouse, and the device table of github.com/JakubAndrysek/PySpaceMouse.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from robot_stack.teleop.bindings import BINDINGS, Device
from robot_stack.teleop.reading import KeyState, Reading, check_axes
from robot_stack.types.errors import RobotError

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


class SpaceMouseReports:
    """A decoder of the reports of one SpaceMouse."""

    def __init__(self, full_count: int = 350) -> None:
        """Start at rest, with no button down.

        Args:
            full_count: Counts at full deflection.
        """
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
