"""Answers of an operator at the terminal, without ever waiting for one."""

from __future__ import annotations

import select
import sys
from typing import TextIO


class Enter:
    """The Enter key of a terminal, asked without waiting whether it was pressed since last time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ended = False

    @classmethod
    def on_terminal(cls) -> Enter | None:
        """Return the Enter key of this process's own terminal; None if it has none."""
        return cls(sys.stdin) if sys.stdin.isatty() else None

    def pressed(self) -> bool:
        """Return True once per line that was typed; never wait."""
        if self._ended or not select.select([self._stream], [], [], 0.0)[0]:
            return False
        line = self._stream.readline()
        self._ended = line == ""
        return not self._ended
