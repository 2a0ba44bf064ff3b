"""Frames of a video or a folder of images, at a steady rate, again and again: a camera for tests and dry runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from robot_stack.sensing.capture import Frame
from robot_stack.sensing.pixels import as_decoded
from robot_stack.types.errors import RobotError, SpecError

IMAGES = (".png", ".jpg", ".jpeg")


class FileSource:
    """A source of frames in a video or a folder of images; implements `Source`.

    Args:
        path: A video, or a folder of images, which are shown in the order of their names.
        rate_hz: Frames per second; what the video says is not looked at.
    """

    def __init__(self, path: str, rate_hz: float) -> None:
        self._path = Path(path).expanduser()
        self._period_ns = round(1e9 / rate_hz)
        self._due_ns = 0
        self._pause = threading.Event()
        self._images: Iterator[np.ndarray] | None = None

    def open(self) -> None:
        """Open the video or folder, and begin with its first image."""
        if not self._path.exists():
            raise RobotError(f"{self._path} does not exist, must be a video or a folder of images; correct `path`")
        self._images = self._folder() if self._path.is_dir() else self._video()
        self._due_ns = time.monotonic_ns()

    def read(self) -> Frame:
        """Return the next image, when its time has come.

        It is stamped then, so that a slow reader sees gaps, no slow motion.
        """
        if self._images is None:
            raise RobotError(f"{self._path} is not open, must be opened first")
        image = next(self._images)
        self._pause.wait(max(0, self._due_ns - time.monotonic_ns()) / 1e9)
        now_ns = time.monotonic_ns()
        self._due_ns = (self._due_ns if now_ns - self._due_ns < self._period_ns else now_ns) + self._period_ns
        try:
            image, encoding = as_decoded(image)
        except SpecError as error:
            raise RobotError(f"{self._path}: {error}") from error
        return Frame(image=image, encoding=encoding, stamp_ns=now_ns)

    def close(self) -> None:
        """Close the video or folder."""
        self._images = None

    def _folder(self) -> Iterator[np.ndarray]:
        while True:
            paths = sorted(path for path in self._path.glob("*") if path.suffix.lower() in IMAGES)
            if not paths:
                raise RobotError(f"folder {self._path} holds no images, must hold some of {', '.join(IMAGES)}")
            for path in paths:
                image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
                if image is None:
                    raise RobotError(f"image {path} cannot be read, must be a whole PNG or JPEG; replace it")
                yield image

    def _video(self) -> Iterator[np.ndarray]:
        while True:
            video = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG)
            try:
                good, image = video.read()
                if not good:
                    raise RobotError(f"video {self._path} has no frame that can be read, must have one; replace it")
                while good:
                    yield image
                    good, image = video.read()
            finally:
                video.release()
