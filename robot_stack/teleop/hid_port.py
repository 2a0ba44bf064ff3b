"""A SpaceMouse at its HID port, through the library hidapi."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from robot_stack.teleop.match import Identity, Wanted, the_one
from robot_stack.types.errors import RobotError

VENDOR = "256f"
"""3Dconnexion. All of its devices of the kind below are taken for a SpaceMouse."""
OLDER: Mapping[str, str] = {
    "046d:c626": "SpaceNavigator",
    "046d:c628": "SpaceNavigator for Notebooks",
    "046d:c62b": "SpaceMouse Pro",
}
"""Those sold under another vendor's number."""
GENERIC_DESKTOP, MULTI_AXIS = 1, 8
"""Usage page and usage of the interface that reports motion; others are keys or the vendor's own."""
LONGEST_REPORT = 64
MOST_REPORTS = 4096
"""Read at once, so that not even a broken device keeps the loop."""


def load_hid() -> Any:
    """Import the module of the package hidapi that reads /dev/hidraw*.

    Its other one, `hid`, may be built for libusb instead, which takes the device from the kernel and needs other
    rights.

    Raises:
        RobotError: If neither is there, or if another package has the name.
    """
    for name in ("hidraw", "hid"):
        with suppress(ImportError):
            library = importlib.import_module(name)
            if hasattr(library, "device"):
                return library
            text = f"module {name} is of another package, must be of hidapi; pip uninstall {name}, pip install hidapi"
            raise RobotError(text)
    raise RobotError("module hid is missing, must be there to read a SpaceMouse; pip install 'robot-stack[teleop]'")


class HidPort:
    """An open HID device that is read without blocking."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def read(self) -> list[bytes]:
        """Return all reports that have arrived, each with its number first.

        Raises:
            OSError: If the device is gone.
        """
        reports: list[bytes] = []
        while len(reports) < MOST_REPORTS:
            report = self._device.read(LONGEST_REPORT)
            if not report:
                break
            reports.append(bytes(report))
        return reports

    def close(self) -> None:
        """Close the device and free it for others."""
        self._device.close()


def open_spacemouse(library: Any, wanted: Wanted) -> HidPort:
    """Open the only SpaceMouse that fits what is wanted.

    Raises:
        RobotError: If none or several fit, or if it may not be read.
    """
    chosen = the_one("SpaceMouse", wanted, motion_interfaces(library), "plug it in")
    path: bytes = chosen["path"]
    device = library.device()
    try:
        device.open_path(path)
        device.set_nonblocking(True)
    except OSError as error:
        shown = os.fsdecode(path)
        if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
            raise RobotError(
                f"{shown} may not be read; add the udev rule of docs/teleop.md, plug it in again"
            ) from error
        raise RobotError(f"{shown} cannot be opened ({error}); close what else uses it, or plug it in again") from error
    return HidPort(device)


def motion_interfaces(library: Any) -> list[tuple[Identity, Mapping[str, Any]]]:
    """List each SpaceMouse once: of several interfaces that could report its motion, the first."""
    found: dict[bytes, tuple[Identity, Mapping[str, Any]]] = {}
    for each in library.enumerate():
        usb = f"{each['vendor_id']:04x}:{each['product_id']:04x}"
        of_theirs = usb.startswith(VENDOR) or usb in OLDER
        if of_theirs and (each["usage_page"], each["usage"]) in ((GENERIC_DESKTOP, MULTI_AXIS), (0, 0)):
            name = each["product_string"] or OLDER.get(usb, "SpaceMouse")
            found[each["path"]] = (Identity(name=name, usb=usb, serial=each["serial_number"] or ""), each)
    first: dict[Identity, int] = {}
    for identity, each in found.values():
        first[identity] = min(each["interface_number"], first.get(identity, each["interface_number"]))
    return [(identity, each) for identity, each in found.values() if each["interface_number"] == first[identity]]
