"""The search for a camera's device file by its serial number, which stays; /dev/videoN is the order of waking.

udev keeps a link per camera in /dev/v4l/by-id: usb-<maker>_<model>_<serial>-video-index0. Index 0 is the camera's
image; higher ones carry metadata or other streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from robot_stack.types.errors import RobotError

BY_ID = Path("/dev/v4l/by-id")
FIRST = "-video-index0"


def find_device(device: str | None, serial: str | None, by_id: Path = BY_ID) -> str:
    """Find the device file, /dev/videoN, of what a cell says about a camera.

    Args:
        device: A path, or None to go by the serial number.
        serial: With a path it is checked, as far as the device is known to have one.
        by_id: Folder of links.

    Raises:
        RobotError: If it is not connected, not the only one, or another one than the serial says.
    """
    if device is not None:
        path = Path(device).resolve()
        if not path.exists():
            raise RobotError(f"device {device} does not exist, must be connected; check its cable and the cell's file")
        _check_serial(path, serial, by_id)
        return str(path)
    matching = {link.resolve() for name, link in _links(by_id) if serial and name.endswith(f"_{serial}")}
    if len(matching) == 1:
        return str(matching.pop())
    found = ", ".join(sorted(name for name, _ in _links(by_id))) or "none"
    if matching:
        raise RobotError(
            f"serial {serial!r} is that of {len(matching)} devices, must be of one; give the cell `device`"
        )
    raise RobotError(f"no device has serial {serial!r}, connected are: {found}; check its cable and the cell's file")


def _check_serial(path: Path, serial: str | None, by_id: Path) -> None:
    names = [name for name, link in _links(by_id) if link.resolve() == path]
    if serial is not None and names and not any(name.endswith(f"_{serial}") for name in names):
        raise RobotError(
            f"device {path} is {names[0]}, must have serial {serial!r}; the cameras' ports were changed, correct "
            "`device` or `serial` in the cell's file"
        )


def _links(by_id: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name, without its ending, and the link of each camera."""
    if by_id.is_dir():
        for link in sorted(by_id.iterdir()):
            if link.name.endswith(FIRST):
                yield link.name.removesuffix(FIRST), link
