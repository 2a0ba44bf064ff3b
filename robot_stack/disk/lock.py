"""Locks on files: they end with the process that took them, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from robot_stack.types.errors import StackError


def take_lock(path: Path, refusal: Callable[[str], StackError]) -> int:
    """Lock a file for this process, which writes its id into it; return the descriptor, whose closing ends the lock.

    Args:
        path: Made if there is none.
        refusal: Makes the error from the id of the process that has the lock.

    Raises:
        StackError: The refusal, if a process has it, or had it and has removed or moved the file since it was opened.
        OSError: If the disk refuses.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _has_name(fd, path):
            raise BlockingIOError
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        raise refusal(owner) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _has_name(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
