"""New whole lines of a file that another process appends to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 4 << 20
"""At one look; of a longer file the newest part."""


class Tail:
    """Reader of a growing file of JSON objects, one a line; it gives each once.

    Args:
        path: May not be there yet, and may be begun anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows written since the last call.

        A line without its end waits; one that is no object is left out.
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
        found = []
        for line in raw[first:end].splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                found.append(row)
        return found
