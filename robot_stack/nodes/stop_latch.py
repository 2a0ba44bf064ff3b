"""The file that keeps a STOP over a restart of the safety process: written before the STOP is announced.

Writing waits for the disk, so a thread does it; the arm is braked meanwhile. The file is removed only when a person
clears the STOP. One that cannot be read counts as a STOP.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

PATIENCE_NS = 500_000_000
"""A disk that takes longer does not keep a STOP from being announced."""


class StopLatch:
    """One file; `keep`, `settled` and `remove` are called by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: threading.Thread | None = None
        self._asked_ns = 0
        self.kept = False
        """Whether there is a STOP to be cleared, in the file or on its way there."""
        self.error = ""
        """Why the STOP would not outlive this process, or ""."""

    def read(self) -> str:
        """What an earlier process left: a sentence with since when and who, or ""."""
        try:
            left = json.loads(self._path.read_text())
            said = f"{left['reason']}, since {left['since']}"
        except FileNotFoundError:
            return ""
        except (OSError, ValueError, KeyError, TypeError) as error:
            said = f"stop file {self._path} is unreadable ({error!r}), so nobody knows since when"
        self.kept = True
        return said

    def keep(self, reason: str) -> None:
        """Start to write; returns at once."""
        self._asked_ns, self.kept = time.monotonic_ns(), True
        content = json.dumps({"reason": reason, "since": time.strftime("%Y-%m-%d %H:%M:%S %z"), "pid": os.getpid()})
        self._writer = threading.Thread(target=self._write, args=(content,), name="stop-latch", daemon=True)
        self._writer.start()

    def settled(self) -> bool:
        """Whether the STOP may be announced: it is on disk, cannot be, or the disk takes too long."""
        if self._writer is None or not self._writer.is_alive():
            return True
        return time.monotonic_ns() - self._asked_ns > PATIENCE_NS

    def wait(self) -> None:
        """Before the process ends."""
        if self._writer is not None:
            self._writer.join(1.0)

    def remove(self) -> str:
        """A person cleared the STOP; returns why it cannot be, or ""."""
        self.wait()
        try:
            self._path.unlink(missing_ok=True)
            if self._path.parent.exists():
                _sync(self._path.parent)
        except OSError as error:
            return f"stop file {self._path} stays ({error.strerror}), must go for the STOP to end; free the disk"
        self.kept, self.error = False, ""
        return ""

    def _write(self, content: str) -> None:
        draft = self._path.with_suffix(".partial")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            _sync(self._path.parent)
            self.error = ""
        except OSError as error:
            self.error = f"stop file {self._path} is not written ({error.strerror}); a restart would forget the STOP"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
