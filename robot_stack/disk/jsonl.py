"""Files of JSON values, one a line, only ever appended to: how a line is added, and how lines are read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
MOST_DAMAGED = 1000
"""Damaged lines that are named, of as many characters each: what is no log at all could have millions."""
MOST_CHARS = 500


@dataclass(frozen=True, slots=True)
class JsonLines(Generic[Row]):
    """The content of a file of JSON lines.

    Attributes:
        rows: Of the lines that were read, in their order.
        damaged: Name of the file and number of the line, as in "labels.jsonl line 3" -> why it could not be read;
            of the first thousand.
        torn: Whether the last line has no end: it is still being written, or a crash tore it. It does not count.
    """

    rows: list[Row] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    torn: bool = False


def read_jsonl(path: Path, parse: Callable[[Any], Row]) -> JsonLines[Row]:
    """Read a file of JSON lines; without a file there are none.

    Args:
        path: Read as it is now; nothing is changed.
        parse: Makes a row of one line's value; a ValueError, KeyError or TypeError damns the line and no other, and so
            does a line that is nested too deeply, or a whole number beyond all floats in the place of one.

    Raises:
        OSError: If there is a file and it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return parse_jsonl(file, path.name, parse)
    except FileNotFoundError:
        return JsonLines()


def parse_jsonl(lines: Iterable[bytes], name: str, parse: Callable[[Any], Row]) -> JsonLines[Row]:
    """Parse JSON lines, each with its end; `name` is what damaged lines are named after. Empty lines are left out."""
    rows: list[Row] = []
    damaged: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return JsonLines(rows, damaged, torn=True)
        if not line.strip():
            continue
        try:
            rows.append(parse(json.loads(line)))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            if len(damaged) < MOST_DAMAGED:
                damaged[f"{name} line {number}"] = repr(error)[:MOST_CHARS]
    return JsonLines(rows, damaged)


def mapping(value: Any) -> dict[str, Any]:
    """Return the value of a line that must be a JSON object.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"line is {value!r}, must be a JSON object")
    return value


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one line to a file, as `append_lines` does.

    Raises:
        OSError: If the disk refuses; the file is as before.
    """
    with path.open("a+b", buffering=0) as file:
        append_lines(file, json.dumps(row).encode() + b"\n")


def append_lines(file: FileIO, lines: bytes) -> int:
    """Append lines to a file, whole or not at all, and return where they begin; they are on disk when this returns.

    Half a line of a killed process is closed first.

    Args:
        file: Opened to read and append, without a buffer: that would write on, of what was refused, when it is closed.
        lines: Each with its end.

    Raises:
        OSError: If the disk refuses; the file is as before.
    """
    start = file.seek(0, os.SEEK_END)
    torn = bool(start) and os.pread(file.fileno(), 1, start - 1) != b"\n"
    try:
        left = memoryview(b"\n" * torn + lines)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), start)
        raise
    return start + torn
