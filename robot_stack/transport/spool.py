"""A durable first-in first-out queue on the actor's disk: what the learner has not acked survives a crash.

`put` only touches memory; a thread writes, and syncs at least every `sync_s`. Records have positions that
count up; `release` forgets those below a position, a whole segment file at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
import time
import zlib
from collections import deque
from itertools import pairwise
from pathlib import Path

from robot_stack.disk.durable import disk_errors, sync_directory, write_durable
from robot_stack.disk.lock import take_lock
from robot_stack.transport.wire import MAX_MESSAGE_BYTES
from robot_stack.types.errors import StoreError, TransportError

_HEAD = struct.Struct("<II")
SUFFIX = ".spool"
NAME_DIGITS = 16
"""Of a file of records, named after the first of them."""
DAMAGED = ".damaged"
"""Behind the name of a file that is kept and not read again."""

log = logging.getLogger(__name__)


class Segment:
    """A segment of the spool: records first, first+1, ... in the file named after the first.

    Attributes:
        first: Position of its first record.
        offsets: Where each whole record starts, in bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = int(path.stem)
        self.offsets: list[int] = []
        self.size = 0

    @classmethod
    def create(cls, folder: Path, first: int) -> Segment:
        """Create an empty segment, on disk by name when this returns; one that failed half way is tried again."""
        path = cls.path_of(folder, first)
        path.touch()
        sync_directory(folder)
        return cls(path)

    @staticmethod
    def path_of(folder: Path, first: int) -> Path:
        """Return the file of the records from `first` on."""
        return folder / f"{first:0{NAME_DIGITS}d}{SUFFIX}"

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
                if not 0 < len(record) == length or zlib.crc32(record) != crc:  # of zeros the CRC would fit
                    return segment
                segment.took(len(record))

    def behind(self) -> list[bytes]:
        """Read the whole records behind the place where `recover` stopped: a torn tail has none, damage has."""
        rest = memoryview(self.path.read_bytes())[self.size :]
        found: list[bytes] = []
        at = 0
        while at + _HEAD.size < len(rest):
            length, crc = _HEAD.unpack_from(rest, at)
            start = at + _HEAD.size
            if length and _may_end(rest, start + length) and zlib.crc32(rest[start : start + length]) == crc:
                found.append(bytes(rest[start : start + length]))
                at = start + length
            else:
                at += 1
        return found

    @property
    def end(self) -> int:
        """Return the position after the segment's last record."""
        return self.first + len(self.offsets)

    def write(self, descriptor: int, record: bytes) -> None:
        """Write a record behind the others; it counts only once `took` is called.

        Raises:
            OSError: If the disk is full or broken; the next write starts at the same place.
        """
        block = memoryview(_framed(record))
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


def _may_end(content: memoryview, place: int) -> bool:
    """Return whether a record can end there: at the end, or before what may be a head."""
    if place + _HEAD.size >= len(content):
        return place <= len(content)
    (length,) = struct.unpack_from("<I", content, place)
    return 0 < length <= MAX_MESSAGE_BYTES


def _framed(record: bytes) -> bytes:
    return _HEAD.pack(len(record), zlib.crc32(record)) + record


def _mark(position: int) -> bytes:
    """Return what the mark of a position is on disk; with a CRC, since a larger one would lose records."""
    digits = b"%020d" % position
    return digits + b" %08x" % zlib.crc32(digits)


class Spool:
    """A queue of records on disk that wait for the learner's acknowledgement; one folder, one process.

    Args:
        queue_bytes: Memory for records the disk has not taken yet; beyond it `put` refuses.
        disk_bytes: Backlog on disk beyond which `put` refuses.
        segment_bytes: Size at which the next file begins.
        sync_s: Longest time between a record reaching the file and fsync.
    """

    def __init__(
        self,
        folder: Path,
        *,
        queue_bytes: int = 256 << 20,
        disk_bytes: int = 16 << 30,
        segment_bytes: int = 4 << 20,
        sync_s: float = 0.5,
    ) -> None:
        self.folder = folder
        self.error = ""
        """Why the disk refuses, or "" while it does not."""
        self.damage = ""
        """What the disk had damaged before `open`, or ""."""
        self._queue_bytes, self._disk_bytes = queue_bytes, disk_bytes
        self._segment_bytes, self._sync_s = segment_bytes, sync_s
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._segments: deque[Segment] = deque()
        self._released = 0
        self._closing = False
        self._descriptor = -1
        self._lock = -1
        self._writer: threading.Thread | None = None

    def open(self) -> None:
        """Recover the records that an earlier process left, and start writing.

        Raises:
            TransportError: If another process has the folder, or a file in the middle is damaged. Of a last file that
                is, what is whole is kept in the queue, and `damage` says so.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = take_lock(
            self.folder / "lock",
            lambda owner: TransportError(
                f"spool {self.folder} is in use by another actor (process {owner}), must be its own; give each actor "
                "its own folder"
            ),
        )
        try:
            self._recover()
        except BaseException:
            os.close(self._lock)
            raise
        self._writer = threading.Thread(target=self._write, name="spool-writer", daemon=True)
        self._writer.start()

    @property
    def released(self) -> int:
        """Return the position of the first record not yet released."""
        return self._released

    @property
    def end(self) -> int:
        """Return the position that the next record gets."""
        with self._changed:
            return (self._segments[-1].end if self._segments else 0) + len(self._queue)

    def put(self, record: bytes) -> bool:
        """Queue a record; return False, and do nothing, if memory or disk are at their limit."""
        with self._changed:
            backlog = sum(segment.size for segment in self._segments)
            if self._queued + len(record) > self._queue_bytes or backlog + len(record) > self._disk_bytes:
                return False
            self._queue.append(record)
            self._queued += len(record)
            self._changed.notify_all()
            return True

    def read(self, position: int, timeout_s: float) -> bytes | None:
        """Read the record at `position` once it is in the file, or return None after `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: position < self._segments[-1].end, timeout_s):
                return None
            segment = next(s for s in reversed(self._segments) if s.first <= position)
        return segment.read(position)

    def release(self, position: int) -> None:
        """Forget every record below `position`; whole files are deleted, the rest is marked."""
        with self._changed:
            if position <= self._released:
                return
            self._released = position
            gone = []
            while len(self._segments) > 1 and self._segments[0].end <= position:
                gone.append(self._segments.popleft())
        with contextlib.suppress(OSError):  # then the records are sent twice, which is harmless
            self._write_mark(position)
        for segment in gone:
            segment.path.unlink(missing_ok=True)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write and sync what is queued, for at most `timeout_s`, and let go of the folder."""
        if self._writer is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._writer.join(timeout_s)
        if not self._writer.is_alive():
            os.close(self._descriptor)
            os.close(self._lock)
            self._writer = None

    def _write(self) -> None:
        dirty_since: float | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing, self._sync_s / 2)
                record = self._queue[0] if self._queue else None
                closing = self._closing
            try:
                if record is not None:
                    self._store(record)
                    dirty_since = time.monotonic() if dirty_since is None else dirty_since
                if dirty_since is not None and (
                    (closing and record is None) or time.monotonic() - dirty_since >= self._sync_s / 2
                ):
                    os.fsync(self._descriptor)
                    dirty_since = None
                self.error = ""
            except OSError as error:
                self.error = f"spool {self.folder} is not writable ({error.strerror}), must be; free some space"
                time.sleep(self._sync_s / 2)  # the record stays first in the queue
            if closing and (record is None or self.error):
                return

    def _store(self, record: bytes) -> None:
        if self._segments[-1].size >= self._segment_bytes:
            os.fsync(self._descriptor)
            self._new_segment(self._segments[-1].end)
        self._segments[-1].write(self._descriptor, record)
        with self._changed:  # never around the write: `put` takes the lock too
            self._segments[-1].took(len(record))
            self._queue.popleft()
            self._queued -= len(record)
            self._changed.notify_all()

    def _recover(self) -> None:
        found = [Segment.recover(path) for path in sorted(self.folder.glob("[0-9]" * NAME_DIGITS + SUFFIX))]
        for earlier, later in pairwise(found):
            if earlier.end != later.first:
                raise TransportError(
                    f"{earlier.path} ends at record {earlier.end}, must reach {later.first}; the disk damaged it: "
                    f"move {self.folder} away to go on without its steps"
                )
        self._released = max(self._read_mark(), found[0].first if found else 0)
        if found and (behind := found[-1].behind()):
            found[-1] = self._mended(found[-1], behind)
        for segment in found:
            if segment.end <= self._released or not segment.offsets:  # the last start recorded nothing
                segment.path.unlink()
            else:
                self._segments.append(segment)
        self._new_segment(max(self._released, self._segments[-1].end if self._segments else 0))

    def _mended(self, damaged: Segment, behind: list[bytes]) -> Segment:
        """Put the whole records of a damaged file into a new one; the file is kept under another name.

        A kill in between leaves the damaged file in its place, or the new one. Behind the damage all positions move, so
        that the mark goes back before it: some records are sent twice, which is harmless.

        Raises:
            StoreError: If the disk refuses.
        """
        whole = [damaged.read(position) for position in range(damaged.first, damaged.end)] + behind
        aside = damaged.path.with_name(damaged.path.name + DAMAGED)
        with disk_errors(f"mending {damaged.path}"):
            write_durable(aside, damaged.path.read_bytes())
            self._released = min(self._released, damaged.end)
            write_durable(self.folder / "released", _mark(self._released))
            write_durable(damaged.path, b"".join(map(_framed, whole)))
        left = len(whole) - (self._released - damaged.first)
        self.damage = (
            f"record {damaged.end} of {damaged.path} is not what was written, must be; {left} whole ones are "
            f"delivered, the file is kept as {aside.name}: check the disk"
        )
        log.error("%s", self.damage)
        return Segment.recover(damaged.path)

    def _new_segment(self, first: int) -> None:
        segment = Segment.create(self.folder, first)
        descriptor = os.open(segment.path, os.O_RDWR)
        with self._changed:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = descriptor
            self._segments.append(segment)

    def _read_mark(self) -> int:
        """Read the position up to which the last process had released.

        The mark is lost with the power, or damaged; then records are sent twice, which is harmless.
        """
        try:
            said = (self.folder / "released").read_bytes()
            position = int(said.partition(b" ")[0])
        except (OSError, ValueError):
            return 0
        return position if said == _mark(position) else 0

    def _write_mark(self, position: int) -> None:
        descriptor = os.open(self.folder / "released", os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, _mark(position), 0)
        finally:
            os.close(descriptor)
