"""A disk that takes as long as a test wants."""

from __future__ import annotations

import threading
from pathlib import Path

from robot_stack.console.session import ConsoleSession
from robot_stack.disk.jsonl import append_row

WAIT_S = 10.0
STUCK_S = 60.0
"""Longer than any wait of a test."""


class StuckDisk:
    """A disk on which whatever is written waits until the test lets it go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.free = threading.Event()

    def append(self, path: Path, row: dict) -> None:
        """In the place of `append_row`."""
        self.wait()
        append_row(path, row)

    def wait(self, *_: object) -> None:
        """In the place of anything else that waits for a disk."""
        self.begun.set()
        assert self.free.wait(STUCK_S)


def unlocked(session: ConsoleSession) -> bool:
    """Whether another thread gets the lock of a session."""
    got = threading.Event()

    def take() -> None:
        with session.locked():
            got.set()

    threading.Thread(target=take, daemon=True).start()
    return got.wait(WAIT_S)
