"""Cameras that are connected to this machine, by the names that survive a restart, and a picture of each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from robot_stack.config.camera import V4l2CameraConfig
from robot_stack.sensing.capture import MOST_BAD, BadFrameError, Frame
from robot_stack.sensing.pixels import jpeg_of, to_rgb
from robot_stack.sensing.v4l2_source import BY_ID, FIRST, Open, V4l2Source

BY_PATH = Path("/dev/v4l/by-path")
SETTLE_FRAMES = 8
"""Frames that are thrown away before a picture is taken, so that exposure has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedCamera:
    """A camera without a ROS driver that is connected.

    Attributes:
        name: As udev has it: maker, model and serial number.
        path: Device file as it is called now.
        serial: Serial number that tells it from the others, or None if none does.
        device: Path that stays as long as it is at the same plug; None where the serial number is enough.
    """

    name: str
    path: str
    serial: str | None
    device: str | None


def connected_cameras(by_id: Path = BY_ID, by_path: Path = BY_PATH) -> list[ConnectedCamera]:
    """List the cameras that udev knows, in the order of their names.

    Two cameras of some makers have one serial number: then the plug tells them apart. If all of their name is the same,
    udev has one link by id for both; the other is found by its plug, and any serial number may then be that of two.
    """
    links = [link for link in _sorted(by_id) if link.name.endswith(FIRST)]
    names = [link.name.removesuffix(FIRST) for link in links]
    known = {link.resolve() for link in links}
    hidden = [plug for plug in _sorted(by_path) if plug.name.endswith(FIRST) and plug.resolve() not in known]
    paths = {plug.resolve(): plug for plug in reversed(hidden)}  # a device may have several names of plugs
    found = [
        ConnectedCamera(name=plug.name.removesuffix(FIRST), path=str(path), serial=None, device=str(plug))
        for path, plug in paths.items()
    ]
    for link, name in zip(links, names):
        serial = name.rpartition("_")[2]
        alone = sum(other.endswith(f"_{serial}") for other in names) == 1 and not hidden
        plugs = [plug for plug in _sorted(by_path) if plug.name.endswith(FIRST) and plug.resolve() == link.resolve()]
        found.append(
            ConnectedCamera(
                name=name.removeprefix("usb-"),
                path=str(link.resolve()),
                serial=serial if alone else None,
                device=None if alone else str(plugs[0] if plugs else link),
            )
        )
    return sorted(found, key=lambda camera: camera.name)


def picture_of(config: V4l2CameraConfig, open_device: Open | None = None) -> bytes:
    """Take a picture with a camera as it is set up in a run; return it as a JPEG.

    Raises:
        RobotError: If it cannot be opened, set up or read; a device that sends nothing is given up after 10 s.
    """
    source = V4l2Source(config) if open_device is None else V4l2Source(config, open_device=open_device)
    try:
        source.open()
        for _ in range(SETTLE_FRAMES):
            _next(source)
        frame = _next(source)
    finally:
        source.close()
    return jpeg_of(to_rgb(frame.image, frame.encoding))


def _next(source: V4l2Source) -> Frame:
    """Return the next frame that is good; as many bad ones in a row as in a run are passed over."""
    for _ in range(MOST_BAD):
        with suppress(BadFrameError):
            return source.read()
    return source.read()


def _sorted(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
