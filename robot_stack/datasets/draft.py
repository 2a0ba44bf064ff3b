"""A folder that appears under its name when all of it is on disk, or not at all.

Written beside as `.NAME.draft`, synced, renamed. Killed at any instant, the draft stays behind: nobody takes it for a
dataset, and the next attempt at the same name removes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robot_stack.disk.durable import refused_file, sync_directory
from robot_stack.replay.durable import WriterLock
from robot_stack.types.errors import StoreError

LOCK = "writer.lock"


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a draft of the folder `out`, which gets its name at the end of the block; an error leaves nothing.

    Raises:
        StoreError: If `out` exists, another process writes it, or the disk refuses.
    """
    if out.exists() or out.is_symlink():
        raise StoreError(f"output folder is {out}, must not exist yet; choose another, nothing is overwritten")
    with _disk_words(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = out.with_name(f".{out.name}.draft")
        draft.mkdir(exist_ok=True)
        lock = WriterLock(draft / LOCK)
        lock.acquire()
        try:
            _empty(draft)
            yield draft
            # one sync of the disk: thousands of chunk files synced one by one take minutes
            os.sync()
            draft.rename(out)
            (out / LOCK).unlink()  # not before: until the draft has its name, it is nobody else's to empty
            sync_directory(out.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        finally:
            lock.release()


def _empty(draft: Path) -> None:
    for path in draft.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


@contextmanager
def _disk_words(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"writing {out} failed: {error.strerror or error} ({refused_file(error) or 'no file named'}); free space, "
            "fix permissions or choose another output folder; nothing was left there, and nothing else was changed"
        ) from error
