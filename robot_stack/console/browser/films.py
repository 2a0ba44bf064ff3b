"""Frames of episodes for the page: ranges of about a second as JPEG, the newest kept in memory up to a bound."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from pathlib import Path

from robot_stack.replay.episode_writer import chunk_rows
from robot_stack.replay.stored_episode import read_frames, read_header
from robot_stack.sensing.pixels import jpeg_of
from robot_stack.types.errors import StoreError

MOST_BYTES = 64 << 20
"""Of encoded ranges in memory; a range of two cameras of 128 pixels has about 200 kB."""
LENGTH = struct.Struct("<I")


class Films:
    """Encoded ranges of frames, each read and encoded once while it is among the newest.

    Args:
        most_bytes: How much is kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[tuple[Path, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.held = 0
        """Bytes in memory."""

    def get(self, path: Path, number: int) -> bytes:
        """Return a range of a closed episode: frame after frame, of each its cameras in the order of the spec.

        Args:
            path: Directory of the episode.
            number: Which range; they are as long as the chunks in which images are stored.

        Returns:
            Per image its length as uint32, little-endian, then the JPEG.

        Raises:
            StoreError: If it cannot be read, or there are no frames in that range.
        """
        key = (path, number)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = _encoded(path, number)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self.held += len(made)
            while self.held > self._most and len(self._kept) > 1:
                self.held -= len(self._kept.popitem(last=False)[1])
        return made


def _encoded(path: Path, number: int) -> bytes:
    _, spec = read_header(path)
    rows = chunk_rows(spec)
    images = read_frames(path, slice(number * rows, (number + 1) * rows))
    count = min((len(each) for each in images.values()), default=0)
    if not count:
        raise StoreError(f"range of {path.stem} is {number}, must have frames; reload the page")
    jpegs = [jpeg_of(images[camera.name][at]) for at in range(count) for camera in spec.cameras]
    return b"".join(part for jpeg in jpegs for part in (LENGTH.pack(len(jpeg)), jpeg))
