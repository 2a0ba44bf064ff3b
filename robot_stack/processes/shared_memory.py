"""Files in shared memory that killed DDS participants left behind: 32 MB each, until somebody removes them.

A living participant holds a lock on `fastrtps_<id>_el` for its segment, and on `fastrtps_port<n>_el` or `_sl` for each
port it listens on. A lock that can be had belongs to nobody any more.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
LOCK = re.compile(r"(fastrtps_(?:[0-9a-f]{16}|port\d{1,5}))_[es]l")
YOUNG_S = 5.0
"""A participant makes its file, then locks it: a younger file may be about to be locked."""


def try_lock(path: Path, flags: int = 0) -> int | None:
    """Return a descriptor that holds the file's lock until it is closed, or None if somebody else holds it.

    Raises:
        OSError: If the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def remove_stale(folder: Path = SHARED_MEMORY, *, now_unix_s: float | None = None) -> int:
    """Remove what no living participant holds; returns how many bytes of memory that gave back.

    Args:
        folder: Where Fast DDS keeps its files.
        now_unix_s: What files' ages are judged by; default: the wall clock.
    """
    now_s = time.time() if now_unix_s is None else now_unix_s
    locks: dict[str, list[Path]] = {}
    for path in folder.glob("fastrtps_*l"):
        match = LOCK.fullmatch(path.name)
        if match is not None:
            locks.setdefault(match[1], []).append(path)
    return sum(_remove(folder / name, paths, now_s) for name, paths in locks.items())


def _remove(segment: Path, locks: list[Path], now_s: float) -> int:
    """Remove a segment or port with its lock files, unless one is held or young; return the bytes freed."""
    held: list[int] = []
    try:
        for path in locks:
            descriptor = None if now_s - path.stat().st_mtime < YOUNG_S else try_lock(path)
            if descriptor is None:
                return 0
            held.append(descriptor)
        files = [path for path in (segment, segment.with_name(f"sem.{segment.name}_mutex"), *locks) if path.exists()]
        freed = sum(path.stat().st_blocks * 512 for path in files)
        for path in files:
            path.unlink()
    except OSError:  # gone meanwhile, or another user's
        return 0
    finally:
        for descriptor in held:
            os.close(descriptor)
    return freed
