"""The choice of the device that is meant among those on this machine, by one rule for HID and for input events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from robot_stack.types.errors import RobotError


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a device: product name, "vendor:product" in hexadecimal, serial number or the like."""

    name: str
    usb: str
    serial: str

    def __str__(self) -> str:
        return f"{self.name or 'nameless'} ({self.usb}{f', {self.serial}' if self.serial else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The name, USB numbers and serial that are asked of a device; None asks for nothing."""

    name: str | None = None
    usb: str | None = None
    serial: str | None = None

    def fits(self, identity: Identity) -> bool:
        """Return whether a device is one of those that are meant."""
        return (
            (self.name is None or self.name.lower() in identity.name.lower())
            and (self.usb is None or self.usb == identity.usb)
            and (self.serial is None or self.serial == identity.serial)
        )

    def __str__(self) -> str:
        asked = {"name": self.name, "usb": self.usb, "serial": self.serial}
        return ", ".join(f"{key} {value!r}" for key, value in asked.items() if value is not None) or "any"


DeviceT = TypeVar("DeviceT")


def the_one(what: str, wanted: Wanted, found: Sequence[tuple[Identity, DeviceT]], remedy: str) -> DeviceT:
    """Return the only device that fits.

    Args:
        what: Kind of device, for the message.
        wanted: What is asked of it.
        found: All of that kind.
        remedy: What to do where none is found.

    Raises:
        RobotError: If none or several fit.
    """
    fitting = [(identity, device) for identity, device in found if wanted.fits(identity)]
    if len(fitting) == 1:
        return fitting[0][1]
    if fitting:
        names = "; ".join(str(identity) for identity, _ in fitting)
        raise RobotError(
            f"{what} is one of {len(fitting)} ({names}), must be one; tell it apart in match of the teleop "
            "file, by serial, usb or name"
        )
    others = "; ".join(str(identity) for identity, _ in found)
    if others:
        raise RobotError(
            f"{what} is missing (wanted: {wanted}; there are: {others}); {remedy}, or name one of those in match of "
            "the teleop file"
        )
    raise RobotError(f"{what} is missing (wanted: {wanted}); {remedy}")
