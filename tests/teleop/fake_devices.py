"""The libraries hid and evdev with devices that only exist here, in the shape of their real interfaces."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

from robot_stack.teleop.input_events import EV_ABS, EV_KEY, EV_SYN, SYN_DROPPED, SYN_REPORT
from robot_stack.teleop.sources import Machine

NO_DEVICE = 19
"""errno ENODEV."""
BUS_USB = 3


class FakeSpaceMouse:
    """A device that `FakeHid` lists while it is plugged in."""

    def __init__(self, product: int = 0xC635, vendor: int = 0x256F, serial: str = "", path: bytes = b"hidraw0") -> None:
        self.info = {
            "path": path, "vendor_id": vendor, "product_id": product, "serial_number": serial,
            "product_string": "SpaceMouse", "usage_page": 1, "usage": 8, "interface_number": 0,
        }  # fmt: skip
        self.plugged = True
        self.refuses = False
        self.waiting: deque[bytes] = deque()

    def send(self, *reports: bytes) -> None:
        self.waiting.extend(reports)


class FakeHid:
    """The module hid of hidapi."""

    def __init__(self, *devices: FakeSpaceMouse) -> None:
        self.devices = list(devices)

    def enumerate(self, vendor_id: int = 0, product_id: int = 0) -> list[dict]:
        return [dict(each.info) for each in self.devices if each.plugged]

    def device(self) -> FakeHidHandle:
        return FakeHidHandle(self)


class FakeHidHandle:
    """An object of hid.device()."""

    def __init__(self, library: FakeHid) -> None:
        self._library = library
        self._device: FakeSpaceMouse | None = None
        self._blocking = True

    def open_path(self, path: bytes) -> None:
        there = [each for each in self._library.devices if each.plugged and each.info["path"] == path]
        if not there or there[0].refuses:
            raise OSError("open failed")
        self._device = there[0]
        self._device.waiting.clear()

    def set_nonblocking(self, value: bool) -> None:
        self._blocking = not value

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        assert not self._blocking, "the loop would stand still"
        if self._device is None or not self._device.plugged:
            raise OSError("read error")
        return list(self._device.waiting.popleft()[:max_length]) if self._device.waiting else []

    def close(self) -> None:
        self._device = None


@dataclass
class FakeInput:
    """An event device that `FakeEvdev` lists while it is plugged in.

    Attributes:
        axes: code -> [value, lowest, highest].
    """

    name: str
    keys: set[int]
    axes: dict[int, list[int]] = field(default_factory=dict)
    vendor: int = 0x1234
    product: int = 0x5678
    version: int = 0x0110
    uniq: str = ""
    phys: str = "usb-1/input0"
    path: str = "/dev/input/event0"
    bustype: int = BUS_USB
    plugged: bool = True
    grabbed: bool = False
    down: set[int] = field(default_factory=set)
    waiting: deque = field(default_factory=deque)

    def key(self, code: int, value: int) -> None:
        """A key goes down (1), up (0) or repeats (2)."""
        (self.down.add if value else self.down.discard)(code)
        self.emit(EV_KEY, code, value)

    def axis(self, code: int, value: int) -> None:
        self.axes[code][0] = value
        self.emit(EV_ABS, code, value)

    def emit(self, kind: int, code: int, value: int) -> None:
        self.waiting.append(SimpleNamespace(type=kind, code=code, value=value))
        self.waiting.append(SimpleNamespace(type=EV_SYN, code=SYN_REPORT, value=0))

    def overflow(self) -> None:
        """The kernel's buffer was full: it says so, and what is left of the report is worthless."""
        self.waiting.clear()
        self.waiting.append(SimpleNamespace(type=EV_SYN, code=SYN_DROPPED, value=0))
        self.waiting.append(SimpleNamespace(type=EV_KEY, code=next(iter(self.keys)), value=1))
        self.waiting.append(SimpleNamespace(type=EV_SYN, code=SYN_REPORT, value=0))

    def unplug(self) -> None:
        """Its state is gone with it."""
        self.plugged = False
        self.waiting.clear()


class FakeEvdev:
    """The module evdev."""

    def __init__(self, *devices: FakeInput) -> None:
        self.devices = list(devices)
        self.open = 0

    def list_devices(self) -> list[str]:
        return [each.path for each in self.devices if each.plugged]

    def InputDevice(self, path: str) -> FakeEventHandle:
        there = [each for each in self.devices if each.plugged and each.path == path]
        if not there:
            raise OSError(NO_DEVICE, "No such device")
        self.open += 1
        return FakeEventHandle(self, there[0])


class FakeEventHandle:
    """An object of evdev.InputDevice."""

    def __init__(self, library: FakeEvdev, device: FakeInput) -> None:
        self._library = library
        self._device = device
        device.waiting.clear()
        self._opened_with = {code: self.absinfo(code) for code in device.axes}
        self.path, self.name, self.uniq, self.phys = device.path, device.name, device.uniq, device.phys
        self.info = SimpleNamespace(
            bustype=device.bustype, vendor=device.vendor, product=device.product, version=device.version
        )  # fmt: skip

    def capabilities(self, verbose: bool = False, absinfo: bool = True) -> dict:
        """As evdev does, with the values that the axes had when the device was opened."""
        found: dict = {EV_SYN: [SYN_REPORT, SYN_DROPPED], EV_KEY: sorted(self._device.keys)}
        if self._opened_with:
            found[EV_ABS] = list(self._opened_with.items()) if absinfo else list(self._opened_with)
        return found

    def absinfo(self, code: int) -> SimpleNamespace:
        self._check()
        value, low, high = self._device.axes[code]
        return SimpleNamespace(value=value, min=low, max=high, fuzz=0, flat=0, resolution=0)

    def active_keys(self) -> list[int]:
        self._check()
        return sorted(self._device.down)

    def read(self) -> Iterator[SimpleNamespace]:
        self._check()
        if not self._device.waiting:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        for _ in range(min(64, len(self._device.waiting))):
            yield self._device.waiting.popleft()

    def grab(self) -> None:
        if self._device.grabbed:
            raise OSError(16, "Device or resource busy")
        self._device.grabbed = True

    def close(self) -> None:
        self._library.open -= 1

    def _check(self) -> None:
        if not self._device.plugged:
            raise OSError(NO_DEVICE, "No such device")


def at_once(job: Callable[[], None]) -> None:
    """Opens here and now, so that a test knows when."""
    job()


def machine(hid: FakeHid | None = None, evdev: FakeEvdev | None = None) -> Machine:
    """A machine with these devices."""
    return Machine(
        hid=lambda: hid if hid is not None else FakeHid(),
        evdev=lambda: evdev if evdev is not None else FakeEvdev(),
        start=at_once,
    )
