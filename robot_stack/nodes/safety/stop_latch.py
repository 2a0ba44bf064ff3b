"""The file that keeps a STOP over a restart of the safety process, written before the STOP is announced.

The file is made at the start, as large as it will ever be, and overwritten in place: a disk that is full by then cannot
forget a STOP. Writing waits for the disk, so a thread does it; the arm is braked meanwhile. Only an operator who clears
the STOP ends what the file says, and a file that cannot be read counts as a STOP.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from robot_stack.disk.durable import sync_directory
from robot_stack.types.reason import Refusal, RefusalKind

PATIENCE_NS = 500_000_000
"""A disk that takes longer does not keep a STOP from being announced."""
SIZE = 4096
"""Bytes of the file, one block; a longer reason is cut."""
MOST_TEXT = 600
CLEAR = "no stop"


class StopLatch:
    """The file that keeps a STOP; `keep`, `settled` and `clear` are called by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: threading.Thread | None = None
        self._asked_ns = 0
        self.kept = False
        """Whether there is a STOP to be cleared, in the file or on its way there."""
        self.error = ""
        """Why the STOP would not outlive this process, or ""."""

    def open(self) -> str:
        """Return what an earlier process left, with since when and who, or ""; make the file where there is none."""
        try:
            left = json.loads(self._path.read_text())
            said = f"{left['reason']}, since {left['since']}" if left["state"] != CLEAR else ""
        except FileNotFoundError:
            self._make()
            return ""
        except (OSError, ValueError, KeyError, TypeError) as error:
            said = f"stop file {self._path} is unreadable ({error!r}), so nobody knows since when"
        self.kept = bool(said)
        self._make()
        return said

    def keep(self, reason: str) -> None:
        """Start to write a STOP and its reason to the file; returns at once."""
        self._asked_ns, self.kept = time.monotonic_ns(), True
        self._writer = threading.Thread(target=self._write, args=(reason,), name="stop-latch", daemon=True)
        self._writer.start()

    def settled(self) -> bool:
        """Return whether the STOP may be announced: it is on disk, cannot be, or the disk takes too long."""
        if self._writer is None or not self._writer.is_alive():
            return True
        return time.monotonic_ns() - self._asked_ns > PATIENCE_NS

    def wait(self) -> None:
        """Wait up to a second for the disk before the process ends."""
        if self._writer is not None:
            self._writer.join(1.0)

    def clear(self) -> Refusal | None:
        """End the STOP in the file, as an operator asks, or return why that cannot be."""
        self.wait()
        try:
            self._put(_content(CLEAR, ""))
        except OSError as error:
            text = f"stop file {self._path} stays ({error.strerror}), must say so for the STOP to end; free the disk"
            return Refusal(kind=RefusalKind.DISK, text=text)
        self.kept, self.error = False, ""
        return None

    def _make(self) -> None:
        """Make the file in its full size where it is not; what it says stays."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists() or self._path.stat().st_size != SIZE:
                self._put(_content("stop", "unreadable stop file") if self.kept else _content(CLEAR, ""))
                sync_directory(self._path.parent)
        except OSError as error:
            self.error = f"stop file {self._path} is not made ({error.strerror}), must be before arming; free the disk"

    def _write(self, reason: str) -> None:
        try:
            self._put(_content("stop", reason))
            self.error = ""
        except OSError as error:
            self.error = f"stop file {self._path} is not written ({error.strerror}); a restart would forget the STOP"

    def _put(self, content: bytes) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.pwrite(descriptor, content, 0) != SIZE:
                raise OSError(None, "disk is full", str(self._path))
            os.ftruncate(descriptor, SIZE)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _content(state: str, reason: str) -> bytes:
    """Return the content of the file: JSON, filled up with blanks."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    said = {"state": state, "reason": reason[:MOST_TEXT], "since": since, "pid": os.getpid()}
    return json.dumps(said).ljust(SIZE).encode()
