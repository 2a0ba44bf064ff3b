"""Files that survive a power cut: write, fsync, rename, fsync the directory."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, takewhile
from pathlib import Path

from robot_stack.types.errors import StoreError

PARTIAL = ".partial"
_making = threading.Lock()
ANYBODY = 0o666
"""Mode of a new file, of which the umask takes its part."""


def sync_directory(path: Path) -> None:
    """Make renames and new names in `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_durable(folder: Path) -> None:
    """Make a folder and those above it, as far as there are none, so that their names survive too.

    Another thread that wants the same one waits until it is on disk.

    Raises:
        OSError: If the disk refuses.
    """
    with _making:
        missing = list(takewhile(lambda each: not each.exists(), chain((folder,), folder.parents)))
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            sync_directory(each.parent)


def write_durable(path: Path, content: bytes | memoryview | str, *, mode: int = ANYBODY) -> None:
    """Replace `path` by `content`, so that at any instant it holds all of the old or all of the new.

    Several threads and processes may do so at once: the last one's content stays.

    Args:
        path: Its folder is made if there is none.
        content: Bytes, or text, which becomes UTF-8.
        mode: Permissions of the new file, before the umask.

    Raises:
        OSError: If the disk refuses; the old file stays.
    """
    make_durable(path.parent)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
    sync_directory(path.parent)


def check_writable(path: Path) -> None:
    """Check that a file can be written at `path`, before the hours of work are done that it is for.

    What is there stays; its folder is made if there is none.

    Raises:
        StoreError: If it is a folder, or the disk refuses; names the file.
    """
    with disk_errors(f"a trial of writing {path}"):
        if path.is_dir():
            raise StoreError(f"{path} is a folder, must be a file; name one in it")
        make_durable(path.parent)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        partial.touch(exist_ok=False)
        partial.unlink()


def create_durable(path: Path, content: bytes, *, mode: int) -> None:
    """Make the file `path` unless there is one: nobody ever sees half of it, and of two makers one wins.

    Args:
        path: Its folder must exist.
        mode: Permissions, whatever the umask says.

    Raises:
        OSError: If the disk refuses.
    """
    if os.path.lexists(path):
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Replace `path` durably by indented JSON, as `write_durable` does."""
    write_durable(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def refused_file(error: OSError) -> str:
    """Return the file that the disk refused, or "" if the system named none; of a copy it is what was written."""
    named = error.filename if error.filename2 is None else error.filename2
    return "" if named is None else str(named)


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn a full, failing or read-only disk into a StoreError that says what was not done."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{doing} failed: {error.strerror or error} ({refused_file(error) or 'no file named'}); "
            "free space or fix permissions, what was flushed before is safe"
        ) from error
