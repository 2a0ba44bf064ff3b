"""The reading of a camera in a thread of its own, so that the newest frame wins and nobody waits for a device.

A device that is lost is opened again, after pauses that grow. What the thread knows about why no frames come is there
to be read; nothing that a device does ends the thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from robot_stack.config.camera import LiveCameraConfig
from robot_stack.plugins import Part
from robot_stack.types.errors import RobotError

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before each further try; the last one is kept."""
MOST_BAD = 3
"""So many frames in a row that cannot be used are no loss of the source; at 30 Hz, 0.1 s without an image."""


class BadFrameError(RobotError):
    """One frame cannot be used; the source is there, and the next frame may be good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One image as it was captured, with its encoding and stamp.

    Attributes:
        image: uint8, shape (H, W, channels); nobody writes to it any more.
        encoding: Layout of the channels, by its name in sensor_msgs.
        stamp_ns: Of the capture, on the monotonic clock.
    """

    image: np.ndarray
    encoding: str
    stamp_ns: int


class Source(Protocol):
    """A device or file of frames. One thread calls all of it; whatever goes wrong is a RobotError in words.

    A BadFrameError of `read` is of that frame alone; any other RobotError means that the source is to be opened again.
    """

    def open(self) -> None:
        """Open the device or file, and start to deliver."""
        ...

    def read(self) -> Frame:
        """Wait for the next frame, for seconds at most, and return it."""
        ...

    def close(self) -> None:
        """Close the device or file, also if it is not open."""
        ...


CameraT = TypeVar("CameraT", bound=LiveCameraConfig)


@dataclass(frozen=True, kw_only=True)
class CameraPart(Part[CameraT]):
    """A camera of another package.

    Attributes:
        config: Model of its camera files.
        source: Builds what is read; opens nothing yet.
    """

    source: Callable[[CameraT], Source]


class Capture:
    """The newest frame of a source, which a thread of its own reads.

    Args:
        source: Handed over: only the thread uses it.
        on_frame: Called by the thread when there is a frame to take and there was none before.
        pauses_s: Before each further try to open.
    """

    def __init__(self, source: Source, on_frame: Callable[[], None], pauses_s: tuple[float, ...] = PAUSES_S) -> None:
        self.read, self.skipped, self.bad, self.opened = 0, 0, 0, 0
        self._source = source
        self._on_frame = on_frame
        self._pauses_s = pauses_s
        self._status = "it is being opened"
        self._failure: Exception | None = None
        self._newest: Frame | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> str:
        """Return why no frames come; "" while they do.

        Raises:
            RobotError: If the thread has ended by a mistake of ours.
        """
        if self._failure is not None:
            raise RobotError(f"capture thread failed: {self._failure}") from self._failure
        return self._status

    def start(self) -> None:
        """Start the thread that reads, if it has not started."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop the thread and let go of the source; a driver that hangs is left to the end of the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def take(self) -> Frame | None:
        """Return the newest frame, once; None until there is a newer one."""
        with self._lock:
            frame, self._newest = self._newest, None
        return frame

    def _run(self) -> None:
        try:
            tries = 0
            while not self._stop.is_set():
                before = self.read
                reason = self._read_until_lost()
                tries = 0 if self.read > before else tries + 1
                pause_s = self._pauses_s[min(tries, len(self._pauses_s) - 1)]
                self._status = f"{reason} (next try in {pause_s:g} s)"
                self._stop.wait(pause_s)
        except Exception as error:  # the top of a thread: whoever asks for the status raises it
            self._failure = error

    def _read_until_lost(self) -> str:
        """Read the source until it is lost or this is stopped; return why it ended."""
        try:
            self._source.open()
            self.opened += 1
            bad = 0
            while not self._stop.is_set():
                try:
                    frame = self._source.read()
                except BadFrameError:
                    bad += 1
                    self.bad += 1
                    if bad > MOST_BAD:
                        raise
                    continue
                self._status, bad = "", 0
                self._put(frame)
        except RobotError as error:
            return str(error)
        finally:
            self._source.close()
        return "it is closed"

    def _put(self, frame: Frame) -> None:
        self.read += 1
        with self._lock:
            waiting, self._newest = self._newest is not None, frame
        if waiting:
            self.skipped += 1
        else:
            self._on_frame()
