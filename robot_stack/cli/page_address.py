"""Tells an operator where the operator's page is, once the console says it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from robot_stack.console.access import ADDRESS_FILE


class PageAddress:
    """Watcher of a run's folder for the page's address; call `look` often.

    Args:
        folder: Of the run; what an earlier start wrote there does not count.
        say: Told the address, again if it changes.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._path = folder / ADDRESS_FILE
        self._say = say
        self._from_s = time.time()
        self._told = ""

    def look(self) -> None:
        """Say the address, if there is a new one."""
        try:
            if self._path.stat().st_mtime < self._from_s:
                return
            address = self._path.read_text().strip()
        except OSError:
            return
        if address and address != self._told:
            self._told = address
            self._say(f"page: {address}")
