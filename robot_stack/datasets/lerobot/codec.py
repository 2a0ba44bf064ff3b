"""Videos of a dataset: the codecs, writing frame after frame, reading in order, and how far pixels were changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.extras import need
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import CameraSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A video codec with the settings that datasets are written with.

    Attributes:
        encoder: Name of the encoder in FFmpeg.
        pixels: Pixel format of the stream.
        options: Of the encoder. A key frame at least every second frame, as LeRobot has it, makes any frame quick to
            find; no frame refers to a later one, so the first one is at time 0.
        smallest_px: Smallest side that the encoder takes.
        even: True where both sides must be even.
    """

    encoder: str
    pixels: str
    options: dict[str, str]
    smallest_px: int = 16
    even: bool = True


PADDING_PX = 128
"""By which an encoder may make a picture larger than it shows."""

CODECS = {
    "h264": Codec(encoder="libx264", pixels="yuv420p", options={"crf": "18", "g": "2", "bf": "0"}),
    "h264-lossless": Codec(
        encoder="libx264rgb", pixels="rgb24", options={"qp": "0", "g": "2", "bf": "0"}, smallest_px=8, even=False
    ),
    "av1": Codec(encoder="libsvtav1", pixels="yuv420p", options={"crf": "30", "g": "2", "preset": "8"}, smallest_px=64),
}
"""By the name a user gives. `av1` has the quality that LeRobot records with."""


def check_codec(name: str, cameras: tuple[CameraSpec, ...]) -> Codec:
    """Return the codec of this name, once it is known to be there and to take the images of these cameras.

    Raises:
        StoreError: If it is unknown, not in this build of FFmpeg, or does not take such an image.
    """
    if name not in CODECS:
        raise StoreError(f"codec is {name!r}, must be one of {sorted(CODECS)}; choose one of them")
    codec = CODECS[name]
    if codec.encoder not in encoders():
        there = [each for each, other in CODECS.items() if other.encoder in encoders()]
        raise StoreError(
            f"encoder {codec.encoder} of codec {name} is missing from this FFmpeg, must be there; "
            f"choose one of {there}, or install a PyAV that has it"
        )
    for camera in cameras:
        sides = (camera.height_px, camera.width_px)
        if min(sides) < codec.smallest_px or (codec.even and any(side % 2 for side in sides)):
            rule = f"at least {codec.smallest_px}" + (" and even" if codec.even else "")
            raise StoreError(
                f"size of camera {camera.name} is {camera.height_px}x{camera.width_px}, must be {rule} on both sides "
                f"for codec {name}; choose codec h264-lossless"
            )
    return codec


def encoders() -> frozenset[str]:
    """Return the encoders in this build of FFmpeg."""
    return frozenset(need("av", "av").codec.codecs_available)


class VideoWriter:
    """A writer of one video file, open while episodes are added."""

    def __init__(self, path: Path, codec: Codec, camera: CameraSpec, rate_hz: int) -> None:
        self.path = path
        self.frames = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._av = need("av", "av")
        os.environ.setdefault("SVT_LOG", "1")  # errors only; else that encoder fills the terminal
        with video_errors(path):
            self._file = self._av.open(str(path), "w", options={"movflags": "faststart"})
            self._stream = self._file.add_stream(codec.encoder, rate=rate_hz, options=dict(codec.options))
        self._stream.width, self._stream.height = camera.width_px, camera.height_px
        self._stream.pix_fmt = codec.pixels
        self._stream.codec_context.time_base = Fraction(1, rate_hz)

    def add(self, images: np.ndarray) -> None:
        """Append frames, RGB uint8, shape (N, H, W, 3), to the video.

        Raises:
            StoreError: If they cannot be encoded.
            OSError: If the disk refuses.
        """
        with video_errors(self.path):
            for image in images:
                frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
                frame.pts = self.frames
                frame.time_base = self._stream.codec_context.time_base
                self._file.mux(self._stream.encode(frame))
                self.frames += 1

    def close(self) -> None:
        """Write the frames that are still in the encoder, and close the file."""
        with video_errors(self.path):
            self._file.mux(self._stream.encode(None))
            self._file.close()

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes that have reached the disk."""
        return self.path.stat().st_size if self.path.exists() else 0


class VideoReader:
    """A reader of one video file, from front to back."""

    def __init__(self, path: Path, rate_hz: float, shape: tuple[int, int, int]) -> None:
        """Open nothing yet; frame n is the one at n / `rate_hz` seconds, and of `shape` (H, W, 3)."""
        self._path = path
        self._shape = shape
        self._rate_hz = rate_hz
        self._frames: Iterator[tuple[int, np.ndarray]] = iter(())
        self._next = -1
        self._file: Any = None

    def take(self, first: int, count: int) -> np.ndarray:
        """Read frames `first` to `first + count - 1`, RGB uint8, shape (count, H, W, 3).

        Raises:
            StoreError: If the video is missing, unreadable, or shorter.
        """
        if self._next < 0 or first < self._next:
            self.close()
            self._frames = self._decoded()
            self._next = 0
        wanted, found = np.empty((count, *self._shape), np.uint8), 0
        for number, image in self._frames:
            self._next = number + 1
            if number >= first:
                wanted[found : found + 1] = image  # one too many goes nowhere
                found += 1
            if number >= first + count - 1 or found > count:
                break
        if found != count:
            raise StoreError(
                f"video {self._path} has {found} of the frames {first} to {first + count - 1}, must have all "
                f"{count} that the table names; fetch or export the dataset again"
            )
        return wanted

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _decoded(self) -> Iterator[tuple[int, np.ndarray]]:
        with video_errors(self._path):
            self._file = _opened(self._path)
            stream = self._file.streams.video[0]
            self._check(stream.codec_context)
            sides = (self._shape[0] + PADDING_PX, self._shape[1] + PADDING_PX)
            stream.codec_context.options = {"max_pixels": str(sides[0] * sides[1])}
            for frame in self._file.decode(stream):
                self._check(frame)
                yield round(frame.time * self._rate_hz), frame.to_ndarray(format="rgb24")

    def _check(self, picture: Any) -> None:
        """Raise StoreError unless a stream or a frame is as large as the table says, before it takes memory."""
        if (picture.height, picture.width) != self._shape[:2]:
            raise StoreError(
                f"size of video {self._path} is {picture.height}x{picture.width}, must be {self._shape[0]}x"
                f"{self._shape[1]}; fetch the dataset again"
            )


def frame_count(path: Path) -> int:
    """Return how many frames a video file says that it has.

    Raises:
        StoreError: If it is no video.
    """
    with video_errors(path), _opened(path) as file:
        return int(file.streams.video[0].frames)


def _opened(path: Path) -> Any:
    """Open a video as this format only: another one is a list of further files and addresses to read from."""
    file = need("av", "av").open(str(path), format="mp4", options={"protocol_whitelist": "file"})
    if not file.streams.video:
        raise StoreError(f"number of videos in {path} is 0, must be 1; fetch the dataset again")
    return file


@contextmanager
def video_errors(path: Path) -> Iterator[None]:
    """Turn an error of FFmpeg about a file into a StoreError; one of the disk stays what it is."""
    error_types = need("av.error", "av")
    try:
        yield
    except error_types.FFmpegError as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise StoreError(
            f"video {path} is unusable ({error.strerror}), must be a video; fetch or export the dataset again"
        ) from error


@dataclass(slots=True, kw_only=True)
class ImageError:
    """The error that a codec made in the pixels of a camera; not frozen, because it adds up.

    Attributes:
        histogram: How many values, of 0 to 255, differ by 0 to 255; int64, shape (256,).
    """

    histogram: np.ndarray = field(default_factory=lambda: np.zeros(256, np.int64))

    def add(self, found: np.ndarray, wanted: np.ndarray) -> None:
        """Add the differences between two arrays of images, both uint8 of one shape."""
        apart = np.maximum(found, wanted) - np.minimum(found, wanted)
        self.histogram += np.bincount(apart.ravel(), minlength=256)

    def to_json(self) -> dict[str, float]:
        """Return mean, p99 and max of the differences, of 255, and the peak signal-to-noise ratio, dB (inf as 999)."""
        levels = np.arange(256)
        total = int(self.histogram.sum())
        mean_square = float((self.histogram * np.square(levels)).sum()) / total
        met = np.flatnonzero(self.histogram)
        return {
            "mean": float((self.histogram * levels).sum()) / total,
            "p99": float(np.searchsorted(np.cumsum(self.histogram), 0.99 * total)),
            "max": float(met[-1]),
            "psnr_db": 999.0 if mean_square == 0 else float(10 * np.log10(255**2 / mean_square)),
        }
