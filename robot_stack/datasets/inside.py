"""Checks that paths which a dataset from elsewhere names or holds stay inside its folder, and are plain files."""

from __future__ import annotations

import os
import re
import stat
import string
from pathlib import Path, PurePosixPath

from robot_stack.datasets.bounds import MAX_ABOUT_BYTES, MAX_LOG_BYTES
from robot_stack.types.errors import StoreError

_WIDTH = re.compile(r"(0?[1-9])?d?")
"""What may follow a name in a pattern of paths: `03d`; a width of a billion would be a gigabyte of zeros."""
_ADVICE = "take the dataset from somebody you trust, or copy it with `cp -rL`, which follows its links"


def inside(root: Path, name: str | Path) -> Path:
    """Return the path of the file `name` of the folder `root`, once it is known to lie there.

    Raises:
        StoreError: If it is absolute, leads out of the folder by `..` or a link, or is no plain file.
    """
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\0" in str(name) or not relative.parts:
        raise StoreError(f"path is {str(name)[:200]!r}, must be inside {root}, without '..'; {_ADVICE}")
    path = root / relative
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(root)):
        raise StoreError(f"path {path} leads to {real}, must be inside {root}; {_ADVICE}")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise StoreError(f"file {path} is missing ({error.strerror}), must be there; fetch it again") from error
    if not stat.S_ISREG(mode):
        raise StoreError(f"file {path} is no plain file, must be one; {_ADVICE}")
    return path


def inside_folder(root: Path, folder: Path) -> None:
    """Walk a folder and refuse what is neither a plain file nor a folder, and every link that leads out of `root`.

    Raises:
        StoreError: Naming the first one.
    """
    real_root = os.path.realpath(root)
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except FileNotFoundError:  # of a run that goes on: an episode got its name
            continue
        for entry in entries:
            if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(real_root):
                raise StoreError(f"link {entry.path} leads out of {root}, must stay inside; {_ADVICE}")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file():
                raise StoreError(f"file {entry.path} is no plain file, must be one; {_ADVICE}")


def fill(pattern: str, **values: int | str) -> str:
    """Fill the names of a pattern of paths: only these names, and only a width behind them.

    Raises:
        StoreError: If the pattern asks for anything else.
    """
    found = []
    try:
        for text, name, form, conversion in string.Formatter().parse(pattern):
            found.append(text)
            if name is None:
                continue
            if name not in values or conversion is not None or not _WIDTH.fullmatch(form or ""):
                raise ValueError(f"field {name[:40]!r}")
            found.append(format(values[name], form or ""))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"pattern of paths is {str(pattern)[:200]!r}, must name only {', '.join(values)}, with a width below 10; "
            "fetch the dataset again"
        ) from error
    return "".join(found)


def check_log(path: Path) -> None:
    """Raise StoreError if a file of lines, which is read into memory, is larger than any that was written by hand."""
    size = path.stat().st_size if path.exists() else 0
    if size > MAX_LOG_BYTES:
        raise StoreError(f"size of {path} is {size} bytes, must be at most {MAX_LOG_BYTES}; fetch the dataset again")


def short_text(root: Path, name: str, most_bytes: int = MAX_ABOUT_BYTES) -> str:
    """Read the text of a small file of the folder `root`.

    Raises:
        StoreError: If it is not inside, or longer.
        OSError, ValueError: If it cannot be read as UTF-8.
    """
    path = inside(root, name)
    size = path.stat().st_size
    if size > most_bytes:
        raise StoreError(f"size of {path} is {size} bytes, must be at most {most_bytes}; fetch the dataset again")
    return path.read_text(encoding="utf-8")
