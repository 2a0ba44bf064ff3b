"""A gamepad, keyboard or pedal at its Linux event device, through the library evdev."""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from robot_stack.teleop.input_events import (
    BUS_BLUETOOTH,
    EV_ABS,
    EV_KEY,
    EV_SYN,
    KEYS,
    SYN_DROPPED,
    SYN_REPORT,
    AxisState,
    Change,
    Snapshot,
)
from robot_stack.teleop.match import Identity, Wanted, the_one
from robot_stack.types.errors import RobotError

INPUT_DEVICES = Path("/dev/input")
MOST_EVENTS = 4096
"""Read at once, so that not even a broken device keeps the loop."""
BY_PLACE, BY_PLACE_VERSION = (0x054C, 0x057E), 0x8000
"""Vendors whose drivers (hid-playstation, hid-sony, hid-nintendo) name the buttons of a gamepad by their places, as the
kernel's gamepad.rst asks, and the bit of the version that tells them from another driver of the same pads."""
BY_LETTER = {KEYS["BTN_NORTH"]: KEYS["BTN_WEST"], KEYS["BTN_WEST"]: KEYS["BTN_NORTH"]}
"""What others, as xpad, call BTN_X and BTN_Y, which have the numbers of BTN_NORTH and BTN_WEST -> the place that this
letter has on most pads, left and upper."""
NUMBERED = frozenset({KEYS["BTN_C"], KEYS["BTN_Z"]})
"""Buttons by letter or by place are without these, but for the capture button of a Nintendo pad, BTN_Z. Other drivers,
as hid-generic, number buttons in the order of the report, from BTN_SOUTH on: BTN_C is the third, wherever that is."""


def load_evdev() -> Any:
    """Import the module evdev.

    Raises:
        RobotError: If it is missing.
    """
    try:
        return importlib.import_module("evdev")
    except ImportError as error:
        raise RobotError(
            "module evdev is missing, must be there to read gamepads, keyboards and pedals; "
            "pip install 'robot-stack[teleop]' (it is compiled: gcc and the headers of Python and Linux are needed)"
        ) from error


class EvdevPort:
    """An open event device that is read without blocking; buttons of a gamepad are told by their places."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._place = {} if _by_place(device) else BY_LETTER
        self._dropping = False
        self._first: Snapshot | None = self._snapshot()

    def read(self) -> list[Snapshot | Change]:
        """Read all of the device first, then what changes; after dropped events all of it again.

        Raises:
            OSError: If the device is gone.
        """
        packets: list[Snapshot | Change] = []
        if self._first is not None:
            packets.append(self._first)
            self._first = None
        with suppress(BlockingIOError):  # nothing more has arrived
            while len(packets) < MOST_EVENTS:
                for event in self._device.read():
                    self._take(event, packets)
        return packets

    def close(self) -> None:
        """Close the device and free it for others."""
        self._device.close()

    def _take(self, event: Any, packets: list[Snapshot | Change]) -> None:
        """Add a key or axis event to `packets`; after dropped events, add a snapshot in place of them.

        The kernel says SYN_DROPPED when it could not keep events: what comes until the next report is worthless.
        """
        if event.type == EV_SYN and event.code == SYN_DROPPED:
            self._dropping = True
        elif self._dropping:
            if event.type == EV_SYN and event.code == SYN_REPORT:
                self._dropping = False
                packets.append(self._snapshot())
        elif event.type == EV_KEY:
            packets.append(Change(event.type, self._place.get(event.code, event.code), event.value))
        elif event.type == EV_ABS:
            packets.append(Change(event.type, event.code, event.value))

    def _snapshot(self) -> Snapshot:
        """Ask the kernel for all of the device; `capabilities` would give the axes as they were when it was opened."""
        axes = {}
        for code in self._device.capabilities(absinfo=False).get(EV_ABS, []):
            info = self._device.absinfo(code)
            axes[code] = AxisState(value=info.value, low=info.min, high=info.max)
        keys = frozenset(self._place.get(code, code) for code in self._device.active_keys())
        return Snapshot(keys=keys, axes=axes)


def open_event_device(
    library: Any,
    what: str,
    wanted: Wanted,
    *,
    keys: frozenset[int],
    grab: bool = False,
    bluetooth: bool = True,
    numbered: bool = True,
) -> EvdevPort:
    """Open the only event device that fits what is wanted.

    Args:
        library: The module evdev.
        what: Kind of device, for messages.
        wanted: Which one.
        keys: It must have all of these; a keyboard has other event devices for its media keys.
        grab: Take it from everybody else.
        bluetooth: Accept one without a cable.
        numbered: Accept one whose buttons are only numbered: nobody knows their places.

    Raises:
        RobotError: If none or several fit, or if it may not be used.
    """
    opened, kept = _open_all(library), None
    try:
        fitting = [each for each in opened if keys <= set(each.capabilities().get(EV_KEY, []))]
        chosen = the_one(what, wanted, _each_once(fitting), _remedy(library))
        if chosen.info.bustype == BUS_BLUETOOTH and not bluetooth:
            raise RobotError(
                f"{what} {chosen.name} comes over Bluetooth, must have a cable: out of reach it keeps its last stick "
                "position for up to half a minute; plug in the cable, or set bluetooth: true"
            )
        if not numbered and not _by_place(chosen) and NUMBERED & set(chosen.capabilities().get(EV_KEY, [])):
            raise RobotError(
                f"{what} {chosen.name} has numbered buttons (BTN_C or BTN_Z), must have named ones; switch it to "
                "X-input, take an Xbox pad at its cable, or read it through joy.yaml"
            )
        if grab:
            chosen.grab()
        port = EvdevPort(chosen)
        kept = chosen
        return port
    except OSError as error:
        raise RobotError(f"{what} cannot be taken ({error}); close what else has grabbed it") from error
    finally:
        for device in opened:
            if device is not kept:
                device.close()


def event_devices(library: Any) -> list[tuple[Identity, dict[int, list[Any]]]]:
    """List each device that may be read, once, with its capabilities: kind of event -> codes."""
    opened = _open_all(library)
    try:
        return [(identity, device.capabilities()) for identity, device in _each_once(opened)]
    finally:
        for device in opened:
            device.close()


def unreadable(library: Any) -> int:
    """Return how many event devices this operator may not read."""
    return max(0, len(list(INPUT_DEVICES.glob("event*"))) - len(library.list_devices()))


def _by_place(device: Any) -> bool:
    """Return whether the driver of a gamepad names its buttons by their places."""
    return device.info.vendor in BY_PLACE and device.info.version & BY_PLACE_VERSION != 0


def _open_all(library: Any) -> list[Any]:
    devices = []
    for path in library.list_devices():
        with suppress(OSError):  # it went away meanwhile
            devices.append(library.InputDevice(path))
    return devices


def _each_once(devices: list[Any]) -> list[tuple[Identity, Any]]:
    """List each device once: of several event devices with the same keys at one plug, the first."""
    first: dict[tuple[Identity, str], Any] = {}
    for device in devices:
        usb = f"{device.info.vendor:04x}:{device.info.product:04x}"
        identity = Identity(name=device.name, usb=usb, serial=device.uniq or "")
        plug = (identity, device.phys.rpartition("/")[0] or device.path)
        if plug not in first or device.phys < first[plug].phys:
            first[plug] = device
    return [(identity, device) for (identity, _), device in first.items()]


def _remedy(library: Any) -> str:
    """Return what to do where no device fits: most often the rights are missing."""
    hidden = unreadable(library)
    if hidden > 0:
        return f"plug it in; {hidden} devices may not be read: add the udev rule of docs/teleop.md"
    return "plug it in"
