"""Frames of a Video4Linux device, through OpenCV.

udev keeps a link per camera in /dev/v4l/by-id: usb-<maker>_<model>_<serial>-video-index0. Index 0 is the camera's
image; higher ones carry metadata or other streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2

from robot_stack.config.camera import V4l2CameraConfig
from robot_stack.sensing.capture import BadFrameError, Frame
from robot_stack.sensing.pixels import as_decoded, decode
from robot_stack.types.errors import RobotError, SpecError

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
    if matching:
        raise RobotError(
            f"serial {serial!r} is that of {len(matching)} devices, must be of one; give the cell `device`"
        )
    if not by_id.is_dir():
        raise RobotError(
            f"no device has serial {serial!r}, {by_id} does not exist, must name the cameras that are connected; check "
            f"its cable; in a container mount {by_id.parent}"
        )
    found = ", ".join(sorted(name for name, _ in _links(by_id))) or "none"
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


MANUAL, APERTURE_PRIORITY = 1, 3
"""V4L2_EXPOSURE_MANUAL, and the automatic of USB cameras."""
EXPOSURE_UNIT_S = 1e-4
JPEG = frozenset({"MJPG", "JPEG"})
"""Formats that are decoded here: what OpenCV cannot decode it shows as the frame before, and says nothing."""
STEP, STEP_SHARE = 2.0, 0.02
"""A device rounds a control to a step of its own: by at most so much, or this share of the value."""
OLDEST_NS = 1_000_000_000
"""A driver's stamp this much before the grab is of another clock."""
Open = Callable[[str, int], Any]
"""Path and OpenCV backend -> a `cv2.VideoCapture`."""


class V4l2Source:
    """A source of frames of a Video4Linux device; implements `Source`.

    OpenCV waits for a frame up to 10 s; a device that is unplugged fails at once.

    Args:
        config: Which device, and how it is set up.
        find: Which device file that is now.
        open_device: Opens it.
    """

    def __init__(
        self,
        config: V4l2CameraConfig,
        find: Callable[[str | None, str | None], str] = find_device,
        open_device: Open = cv2.VideoCapture,
    ) -> None:
        self._config = config
        self._find = find
        self._open_device = open_device
        self._path = ""
        self._capture: Any = None

    def open(self) -> None:
        """Find the device anew, since it may have another number after it was unplugged, and set it up."""
        self._path = self._find(self._config.device, self._config.serial)
        try:
            self._capture = self._open_device(self._path, cv2.CAP_V4L2)
            if not self._capture.isOpened():
                raise RobotError(
                    f"device {self._path} cannot be opened, must be a free camera that this user may read; close other "
                    "programs that use it, and join the group `video`"
                )
            self._set_format()
            self._set_controls()
        except cv2.error as error:
            raise RobotError(f"device {self._path} cannot be set up, OpenCV said: {_line(error)}; replug it") from error

    def read(self) -> Frame:
        """Return the next frame, BGR, stamped by the driver where its clock is ours, else when it was grabbed."""
        try:
            if not self._capture.grab():
                raise RobotError(f"device {self._path} delivers no frame; replug it, on another port or a powered hub")
            grabbed_ns = time.monotonic_ns()
            stamp_ns = capture_stamp(self._capture.get(cv2.CAP_PROP_POS_MSEC), grabbed_ns)
            _, image = self._capture.retrieve()
        except cv2.error as error:
            raise BadFrameError(f"device {self._path}: OpenCV said of a frame: {_line(error)}") from error
        if image is None:
            raise BadFrameError(f"device {self._path} delivers a frame without bytes; try another port, cable or hub")
        jpeg = self._config.fourcc in JPEG
        try:
            image, encoding = decode(image.ravel(), "jpeg") if jpeg else as_decoded(image)
        except SpecError as error:
            raise (BadFrameError if jpeg else RobotError)(f"device {self._path}: {error}") from error
        return Frame(image=image, encoding=encoding, stamp_ns=stamp_ns)

    def close(self) -> None:
        """Release the device, if it is open."""
        if self._capture is not None:
            self._capture.release()
            self._capture = None

    def _set_format(self) -> None:
        """Set format, size and rate in the order that drivers need, then check what the device really has."""
        config = self._config
        self._set("buffers", cv2.CAP_PROP_BUFFERSIZE, config.buffers)
        self._set("fourcc", cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*config.fourcc))
        self._set("width_px", cv2.CAP_PROP_FRAME_WIDTH, config.width_px)
        self._set("height_px", cv2.CAP_PROP_FRAME_HEIGHT, config.height_px)
        self._set("rate_hz", cv2.CAP_PROP_FPS, round(config.rate_hz))
        self._set("RGB conversion", cv2.CAP_PROP_CONVERT_RGB, 0 if config.fourcc in JPEG else 1)
        width, height, fourcc = (
            round(self._capture.get(key))
            for key in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FOURCC)
        )
        has = f"{width}x{height} {fourcc.to_bytes(4, 'little').decode('ascii', 'replace')}"
        asked = f"{config.width_px}x{config.height_px} {config.fourcc}"
        if has != asked:
            raise RobotError(
                f"device {self._path} delivers {has}, must be {asked} as in the camera's file; ask it for what it can "
                "do with `v4l2-ctl --list-formats-ext`"
            )

    def _set_controls(self) -> None:
        """Set exposure, gain, white balance and focus, each fixed or automatic.

        Devices keep controls when they are closed: what is to be automatic is said, too, if it can be.
        """
        config, capture = self._config, self._capture
        if config.exposure_s is None:
            capture.set(cv2.CAP_PROP_AUTO_EXPOSURE, APERTURE_PRIORITY)
        else:
            self._set("exposure_s", cv2.CAP_PROP_AUTO_EXPOSURE, MANUAL)
            units = max(1, round(config.exposure_s / EXPOSURE_UNIT_S))
            self._fix("exposure_s", cv2.CAP_PROP_EXPOSURE, units, EXPOSURE_UNIT_S)
        if config.gain is not None:
            self._fix("gain", cv2.CAP_PROP_GAIN, config.gain)
        for name, value, automatic, fixed in (
            ("white_balance_k", config.white_balance_k, cv2.CAP_PROP_AUTO_WB, cv2.CAP_PROP_WB_TEMPERATURE),
            ("focus", config.focus, cv2.CAP_PROP_AUTOFOCUS, cv2.CAP_PROP_FOCUS),
        ):
            if value is None:
                capture.set(automatic, 1)
            else:
                self._set(name, automatic, 0)
                self._fix(name, fixed, value)

    def _fix(self, name: str, key: int, value: float, unit: float = 1.0) -> None:
        """Set a control, and check what the device made of it; OpenCV has -1 for one that cannot be read."""
        self._set(name, key, value)
        has = self._capture.get(key)
        if has >= 0 and abs(has - value) > max(STEP, STEP_SHARE * value):
            raise RobotError(
                f"device {self._path} has {name} {has * unit:g}, must be {value * unit:g} as in the camera's file; "
                "give it there a value that the device has, see `v4l2-ctl --list-ctrls`"
            )

    def _set(self, name: str, key: int, value: float) -> None:
        if not self._capture.set(key, value):
            raise RobotError(
                f"device {self._path} does not take {name} (as {value:g}); change or remove it in the camera's file"
            )


def capture_stamp(driver_ms: float, grabbed_ns: int) -> int:
    """Return when a frame was captured: the driver's stamp if that is of the monotonic clock, else that of the grab.

    USB cameras are stamped by the kernel with the monotonic clock when the first packet of a frame arrives. That shows
    how long a frame lay in the driver's buffer, which the time of the grab does not.
    """
    driver_ns = round(driver_ms * 1e6)
    return driver_ns if 0 <= grabbed_ns - driver_ns < OLDEST_NS else grabbed_ns


def _line(error: cv2.error) -> str:
    return " ".join(str(error).split())
