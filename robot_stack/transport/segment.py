"""One file of the spool: records of length (uint32), CRC-32 (uint32) and bytes, appended and never changed."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from robot_stack.disk.durable import sync_directory
from robot_stack.types.errors import StoreError

_HEAD = struct.Struct("<II")
SUFFIX = ".spool"


class Segment:
    """A segment of the spool: records first, first+1, ... in the file named after the first.

    Attributes:
        first: Position of its first record.
        offsets: Where each whole record starts, in bytes.
        size: Bytes of whole records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = int(path.stem)
        self.offsets: list[int] = []
        self.size = 0

    @classmethod
    def create(cls, folder: Path, first: int) -> Segment:
        """Create an empty segment, on disk by name when this returns."""
        path = folder / f"{first:016d}{SUFFIX}"
        path.touch()
        sync_directory(folder)
        return cls(path)

    @classmethod
    def recover(cls, path: Path) -> Segment:
        """Read the records of a file, as far as length and CRC fit; what a crash tore off behind them is ignored."""
        segment = cls(path)
        with path.open("rb") as file:
            while True:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    return segment
                length, crc = _HEAD.unpack(head)
                record = file.read(length)
                if len(record) < length or zlib.crc32(record) != crc:
                    return segment
                segment.took(len(record))

    @property
    def end(self) -> int:
        """Return the position after the segment's last record."""
        return self.first + len(self.offsets)

    def write(self, descriptor: int, record: bytes) -> None:
        """Write a record behind the others; it counts only once `took` is called.

        Raises:
            OSError: If the disk is full or broken; the next write starts at the same place.
        """
        block = memoryview(_HEAD.pack(len(record), zlib.crc32(record)) + record)
        written = 0
        while written < len(block):
            written += os.pwrite(descriptor, block[written:], self.size + written)

    def took(self, length: int) -> None:
        """Count the record of `length` bytes that was written last."""
        self.offsets.append(self.size)
        self.size += _HEAD.size + length

    def read(self, position: int) -> bytes:
        """Read the record at `position`.

        Raises:
            StoreError: If it does not read back as written.
        """
        with self.path.open("rb") as file:
            file.seek(self.offsets[position - self.first])
            length, crc = _HEAD.unpack(file.read(_HEAD.size))
            record = file.read(length)
        if zlib.crc32(record) != crc:
            raise StoreError(
                f"record {position} of {self.path} is not what was written, must be; check the disk, move the file away"
            )
        return record
