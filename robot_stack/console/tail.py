"""New whole lines of a file that another process appends to."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic

from robot_stack.disk.jsonl import Row, parse_jsonl

MOST_BYTES = 4 << 20
"""At one look; of a longer file the newest part."""


class Tail(Generic[Row]):
    """Reader of a growing file of JSON values, one a line; it gives each once.

    Args:
        path: May not be there yet, and may be begun anew.
        parse: Makes a row of one line's value, as for `read_jsonl`.
    """

    def __init__(self, path: Path, parse: Callable[[Any], Row]) -> None:
        self._path = path
        self._parse = parse
        self._read = 0

    def rows(self) -> list[Row]:
        """Return the rows written since the last call.

        A line without its end waits; one that cannot be parsed is left out.
        """
        try:
            size = self._path.stat().st_size
            if size < self._read:
                self._read = 0
            if size == self._read:
                return []
            with self._path.open("rb") as file:
                skipped = size - self._read > MOST_BYTES
                file.seek(size - MOST_BYTES if skipped else self._read)
                start, raw = file.tell(), file.read(MOST_BYTES)
        except OSError:
            return []
        first = raw.find(b"\n") + 1 if skipped else 0
        end = raw.rfind(b"\n") + 1
        self._read = start + end
        return parse_jsonl(io.BytesIO(raw[first:end]), self._path.name, self._parse).rows
