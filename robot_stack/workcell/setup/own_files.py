"""The files of a cell of one's own: texts by kind and name, checked as a whole before the first of them is written."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from robot_stack.config.files.library import FOLDER, KINDS, config_root
from robot_stack.disk.durable import make_durable, write_durable
from robot_stack.disk.lock import take_lock
from robot_stack.types.errors import ConfigError

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
SCHEMA = "schema"
LOCK = ".lock"
"""Held by the one process that writes into a folder of own files."""
RENAMED: Mapping[str, tuple[str, ...]] = {"tasks": ("name",), "runs": ("cell", "task")}
"""Kind of file -> its keys that get the new name in a copy."""
Texts = Mapping[tuple[str, str], str]
"""Kind and name of a file -> its text."""


def refuse_name(name: str) -> None:
    """Refuse a name that cannot be one.

    Raises:
        ConfigError: If it has other characters, or too many.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"name is {name!r}, must be a-z, 0-9 and _ and begin with a letter, as in my_table")


def refuse_taken(name: str, files: Iterable[tuple[str, str]], shipped: Path) -> None:
    """Refuse files, by kind and name, of which one is there already.

    Raises:
        ConfigError: Naming those that are there.
    """
    roots = (Path(FOLDER), shipped)
    taken = [path for kind, each in sorted(files) for root in roots if (path := _path(root, kind, each)).exists()]
    if taken:
        raise ConfigError(f"name {name!r} is taken by {', '.join(map(str, taken))}, must be new; take another one")


def renamed(text: str, kind: str, name: str) -> str:
    """Return the text of an example under a new name.

    Raises:
        ConfigError: If it has not each key that gets the name once.
    """
    for key in RENAMED.get(kind, ()):
        text, count = re.subn(rf"^({key}: *)\S+", lambda found: found[1] + name, text, flags=re.MULTILINE)
        if count != 1:
            raise ConfigError(f"example in {kind} has {count} lines {key!r}, must have one; reinstall robot-stack")
    return text


def headed(text: str, origin: str) -> str:
    """Return a text with a comment on where it is from, after the line for the editor."""
    first, _, rest = text.partition("\n")
    return f"{first}\n# {origin}\n{rest}"


def check_together(texts: Texts, run: str, check: Callable[[str, Path], object]) -> None:
    """Check texts as the files that they would be, beside all other files, without writing them where they belong.

    Args:
        texts: What would be written.
        run: Name of the run among them.
        check: Loads a run from a folder that comes before all others, or raises.

    Raises:
        ConfigError: One line per mistake, with the names of the files as they would be.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / FOLDER
        for (kind, name), text in texts.items():
            path = _path(root, kind, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            check(run, root)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(root), FOLDER)) from error


def write_together(texts: Texts, shipped: Path | None = None) -> list[Path]:
    """Write the files below ./hardware_configs, the run last, and beside them what an editor checks them with.

    Args:
        texts: What to write.
        shipped: Folder of the shipped files; None for that of the installed package.

    Returns:
        The files, in the order in which they were written.

    Raises:
        ConfigError: If one is there already, another process writes there, or the disk refuses; none of them stays.
    """
    shipped = config_root() if shipped is None else shipped
    own = Path(FOLDER)
    ordered = sorted(texts, key=lambda each: KINDS.index(each[0]))
    schemas: dict[Path, str] = {}
    if own.resolve() != shipped.resolve():  # in a checkout they are the same
        with _refusing(shipped / SCHEMA):
            schemas = {own / SCHEMA / path.name: path.read_text() for path in (shipped / SCHEMA).iterdir()}
    with _refusing(own):
        make_durable(own)
        lock = take_lock(own / LOCK, _being_written)
    try:
        refuse_taken(ordered[-1][1], texts, shipped)
        written = _write_all({_path(own, *each): texts[each] for each in ordered})
        _write_all(schemas, written)
    finally:
        os.close(lock)
    return written


def _write_all(texts: Mapping[Path, str], before: Sequence[Path] = ()) -> list[Path]:
    """Write files, or none: what was written is taken back, as are those before it, if one cannot be."""
    written = []
    try:
        for path, text in texts.items():
            if not path.exists():
                written.append(path)
            with _refusing(path):
                write_durable(path, text)
    except BaseException:
        for path in (*before, *written):
            path.unlink(missing_ok=True)
        raise
    return written


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}), must be; free space or check whose it is"
        ) from error


def _being_written(owner: str) -> ConfigError:
    return ConfigError(f"{FOLDER} is being written by process {owner}, must be by one at a time; wait, then try again")


def _path(root: Path, kind: str, name: str) -> Path:
    return root / kind / f"{name}.yaml"
