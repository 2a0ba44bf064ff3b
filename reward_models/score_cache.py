"""A cache of scores that were paid for once: the newest in memory, all of them in a file that only grows.

A line is a checksum and a JSON list of key, value and words. A line that does not fit its checksum, cut by a crash or
damaged later, is skipped and counted; the question is asked again. No torch, no ROS.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from reward_models.interface import Score
from robot_stack.disk.jsonl import append_lines

LONGEST_LINE = 8192

_log = logging.getLogger(__name__)


class ScoreCache:
    """A cache of valid scores by key, in memory and in a file."""

    def __init__(self, path: Path | None, *, memory: int) -> None:
        self.damaged = 0
        self._path = path
        self._memory = memory
        self._newest: OrderedDict[str, Score] = OrderedDict()
        self._lock = threading.Lock()
        self._places: dict[bytes, int] = {}
        self._file: FileIO | None = None
        self._refused = False

    def open(self) -> None:
        """Index what the file has, and make the file if there is none; do nothing for memory alone.

        Raises:
            OSError: If the file can be neither read nor made.
        """
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+b", buffering=0)
        place = 0
        with self._path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                entry = _decode(line)
                if entry is not None:
                    self._places[_short(entry[0])] = place
                elif line != b"\n":
                    self.damaged += 1
                place += len(line)

    def recall(self, key: str) -> Score | None:
        """Return the score of a key from memory, at once; None if it is not there."""
        with self._lock:
            if key in self._newest:
                self._newest.move_to_end(key)
            return self._newest.get(key)

    def load(self, key: str) -> Score | None:
        """Return the score of a key from memory or the file; None if neither has it. For one thread."""
        score = self.recall(key)
        place = self._places.get(_short(key))
        if score is not None or place is None or self._file is None:
            return score
        entry = _decode(_line_at(self._file, place))
        if entry is None or entry[0] != key:
            self._places.pop(_short(key))
            self.damaged += 1
            return None
        self._remember(key, entry[1])
        return entry[1]

    def store(self, found: Sequence[tuple[str, Score]]) -> None:
        """Store valid scores; they are on the disk when this returns. For one thread.

        A disk that does not take them is said in the log, and memory goes on; the next ones are offered to it again.
        """
        lines = bytearray()
        for key, score in found:
            if score.valid:
                self._remember(key, score)
                lines += _encode(key, score)
        if not lines or self._file is None:
            return
        try:
            place = append_lines(self._file, bytes(lines))
        except OSError as error:
            if not self._refused:
                _log.error("scores are not kept in %s, only in memory: %s", self._path, error)
            self._refused = True
            return
        if self._refused:
            _log.info("scores are kept in %s again", self._path)
        self._refused = False
        for key, score in found:
            if score.valid:
                self._places[_short(key)] = place
                place += len(_encode(key, score))

    def close(self) -> None:
        """Close the cache's file, if it has one."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _remember(self, key: str, score: Score) -> None:
        with self._lock:
            self._newest[key] = score
            self._newest.move_to_end(key)
            while len(self._newest) > self._memory:
                self._newest.popitem(last=False)


def _line_at(file: FileIO, place: int) -> bytes:
    """Read the line that begins at a place; b"" if the disk does not give it."""
    try:
        content = os.pread(file.fileno(), LONGEST_LINE, place)
    except OSError:
        return b""
    return content[: content.find(b"\n") + 1]


def _short(key: str) -> bytes:
    return bytes.fromhex(key)


def _encode(key: str, score: Score) -> bytes:
    text = json.dumps([key, score.value, score.raw]).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode(line: bytes) -> tuple[str, Score] | None:
    """Decode a line of the file to key and score; None if it is damaged."""
    text = line[9:-1]
    if line[:9] != b"%08x " % zlib.crc32(text) or line[-1:] != b"\n":
        return None
    key, value, raw = json.loads(text)
    return key, Score(value=value, raw=raw)
