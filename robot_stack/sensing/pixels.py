"""Images made of the bytes that a driver sends, without copying, and RGB made of any channel order.

Only 8 bits per channel: byte order then means nothing, so `is_bigendian` of a message is not looked at. What has more
is refused in words rather than scaled, since no scale is the right one for every camera.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from robot_stack.types.errors import SpecError

MOST_PX = 8192 * 8192
"""Of a file that is decoded: as many as a camera may have. What a header says costs its sender nothing."""
PNG_HEAD = b"\x89PNG\r\n\x1a\n"
FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Second bytes of the JPEG markers behind which height and width stand."""
LARGE_PX = 240
"""From this height and width on an image loses nothing that is seen with half of its colours."""


def png_of(image: np.ndarray) -> bytes:
    """Return the PNG file of an RGB image, uint8, shape (H, W, 3)."""
    _, encoded = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    return encoded.tobytes()


def jpeg_of(image: np.ndarray) -> bytes:
    """Encode an RGB image, uint8, shape (H, W, 3), as a JPEG: a small one with its colours at full resolution.

    It loses them otherwise. A large one has half of it, which takes half the time and half the bytes.
    """
    small = min(image.shape[:2]) < LARGE_PX
    sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if small else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
    words = [cv2.IMWRITE_JPEG_QUALITY, 88, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    _, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), words)
    return encoded.tobytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The channels of a pixel: how many, and what makes RGB of them (an OpenCV code; None if they are RGB)."""

    channels: int
    to_rgb: int | None


LAYOUTS: Mapping[str, Layout] = {
    "rgb8": Layout(channels=3, to_rgb=None),
    "bgr8": Layout(channels=3, to_rgb=cv2.COLOR_BGR2RGB),
    "rgba8": Layout(channels=4, to_rgb=cv2.COLOR_RGBA2RGB),
    "bgra8": Layout(channels=4, to_rgb=cv2.COLOR_BGRA2RGB),
    "mono8": Layout(channels=1, to_rgb=cv2.COLOR_GRAY2RGB),
}
"""By their names in sensor_msgs."""
DECODED = {1: "mono8", 3: "bgr8", 4: "bgra8"}
"""Channels of what OpenCV decodes -> layout."""


def layout_of(encoding: str) -> Layout:
    """Return the layout of pixels in an encoding.

    Raises:
        SpecError: If pixels of it are not taken; the message says what to ask of the driver.
    """
    if encoding in LAYOUTS:
        return LAYOUTS[encoding]
    legal = ", ".join(LAYOUTS)
    if "16" in encoding or "32" in encoding or "64" in encoding:
        raise SpecError(
            f"encoding is {encoding!r}, must have 8 bits per channel: {legal}; choose the colour stream of the driver, "
            "or an 8 bit format"
        )
    raise SpecError(f"encoding is {encoding!r}, must be one of {legal}; set the output format of the driver")


def view_of(data: np.ndarray, *, encoding: str, height: int, width: int, step: int) -> np.ndarray:
    """View the bytes of a raw image as pixels, in place.

    Args:
        data: Its bytes, uint8, shape (N,).
        encoding: Name of the layout.
        height: Rows.
        width: Columns.
        step: Bytes from one row to the next; drivers pad rows.

    Returns:
        A view, uint8, shape (height, width, channels), channels next to each other.

    Raises:
        SpecError: If the encoding is not taken, or the numbers do not fit each other.
    """
    channels = layout_of(encoding).channels
    row = width * channels
    if height < 1 or width < 1 or step < row:
        raise SpecError(
            f"image is {width}x{height} {encoding} with {step} bytes per row, must have at least {row} and not be "
            "empty; fix its sender"
        )
    if len(data) < (height - 1) * step + row:
        raise SpecError(
            f"image of {width}x{height} {encoding} has {len(data)} bytes, must have {height * step}; fix its sender"
        )
    return np.lib.stride_tricks.as_strided(
        data, shape=(height, width, channels), strides=(step, channels, 1), writeable=False
    )


def decode(data: np.ndarray, form: str) -> tuple[np.ndarray, str]:
    """Decode a JPEG or PNG file; return the image, at its own size and depth, and its encoding.

    Args:
        data: The file, uint8, shape (N,).
        form: `format` of a CompressedImage, such as "jpeg" or "rgb8; jpeg compressed bgr8".

    Raises:
        SpecError: If it is of another format, damaged, huge, or has more than 8 bits per channel.
    """
    rows, columns = said_size(data, form)
    if rows * columns > MOST_PX:
        raise SpecError(
            f"image is {columns}x{rows}, must have at most {MOST_PX} pixels; set the driver to a smaller size"
        )
    try:
        image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise _undecodable(data, form) from error
    if image is None:
        raise _undecodable(data, form)
    return as_decoded(image)


def said_size(data: np.ndarray, form: str) -> tuple[int, int]:
    """Return the rows and columns of a JPEG or PNG file as its header says, without decoding it.

    Args:
        data: The file, uint8, shape (N,).
        form: As for `decode`.

    Raises:
        SpecError: If it is of another format, or has no whole header.
    """
    words = form.lower()
    if "compresseddepth" in words or not any(name in words for name in ("jpeg", "jpg", "png")):
        raise SpecError(f"format is {form!r}, must be jpeg or png; choose the colour topic that ends in /compressed")
    file = data.data
    try:
        if bytes(file[: len(PNG_HEAD)]) == PNG_HEAD:
            columns, rows = struct.unpack_from(">II", file, 16)
            return rows, columns
        if bytes(file[:2]) == b"\xff\xd8":
            return _jpeg_size(file)
    except (struct.error, IndexError) as error:
        raise _undecodable(data, form) from error
    raise _undecodable(data, form)


def _jpeg_size(file: memoryview) -> tuple[int, int]:
    """Return rows and columns from the frame header, which stands behind segments that each say how long they are."""
    at = 2
    while file[at] == 0xFF:
        marker = file[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in FRAME_MARKERS:
            rows, columns = struct.unpack_from(">HH", file, at + 5)
            return rows, columns
        else:
            at += 2 + struct.unpack_from(">H", file, at + 2)[0]
    raise IndexError("no marker where one must be")


def _undecodable(data: np.ndarray, form: str) -> SpecError:
    return SpecError(f"{form} of {len(data)} bytes cannot be decoded, must be a whole image; check the link to it")


def as_decoded(image: np.ndarray) -> tuple[np.ndarray, str]:
    """Return an image as OpenCV gives it, with its third axis, and its encoding.

    Raises:
        SpecError: If it has more than 8 bits per channel, or another number of channels.
    """
    image = image if image.ndim == 3 else image[..., None]
    channels = image.shape[2]
    if image.dtype != np.uint8 or channels not in DECODED:
        raise SpecError(
            f"image is {image.dtype} with {channels} channels, must have 8 bits per channel and 1, 3 or 4 of them; "
            "choose a colour stream"
        )
    return image, DECODED[channels]


def to_rgb(image: np.ndarray, encoding: str) -> np.ndarray:
    """Convert an image in a known layout to RGB uint8, shape (H, W, 3); an RGB image is returned as it is."""
    code = layout_of(encoding).to_rgb
    return image if code is None else np.asarray(cv2.cvtColor(np.ascontiguousarray(image), code), dtype=np.uint8)
