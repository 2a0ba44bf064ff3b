"""The folders of YAML files. A name is a file stem; an operator's own folder comes before the shipped ones.

Other packages ship folders too. A name in two shipped folders is refused, unless the operator's own folder has it.
"""

from __future__ import annotations

import os
from pathlib import Path

from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, hint, shown
from robot_stack.config.files.yaml_text import read, shown_path
from robot_stack.plugins import config_folders
from robot_stack.types.errors import ConfigError

FOLDER = "hardware_configs"
KINDS = ("robots", "cameras", "teleop", "safety", "cells", "tasks", "runs")


def config_root() -> Path:
    """Return the shipped folder of YAML files; see `shipped_with`."""
    return shipped_with(Path(__file__).resolve().parents[2])


def shipped_with(package: Path) -> Path:
    """Return the folder beside a package in a checkout, else in `share/robot_stack` of its install prefix.

    Raises:
        ConfigError: If it is at neither place.
    """
    checkout = package.parent / FOLDER
    shared = [parent / "share" / "robot_stack" / FOLDER for parent in package.parents]
    for candidate in (checkout, *shared):
        if (candidate / "robots").is_dir():
            return candidate
    raise ConfigError(
        f"{FOLDER} is missing, must be at {checkout} or under share/robot_stack of the install; reinstall robot-stack"
    )


def search_path(root: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in the order in which names are looked up: `root`, ./hardware_configs, the shipped ones.

    Raises:
        ConfigError: If `root` is given and is no folder, or ./hardware_configs is there and cannot be read.
    """
    if root is not None and not root.is_dir():
        raise ConfigError(f"configuration folder is {root}, must be an existing folder; check its name")
    own = Path.cwd() / FOLDER
    _check_readable(own)
    wanted = [path for path in (root, own) if path is not None and path.is_dir()]
    return tuple(dict.fromkeys(path.resolve() for path in (*wanted, config_root(), *config_folders())))


def roots_of(name_or_path: str | Path, root: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in which what a run names is looked up, in this order.

    For a path to a run's file, the folder around its runs/ comes before those of `search_path`, unless it is one of
    them: what comes before it there, such as an operator's own tighter limits, comes before it here too.

    Raises:
        ConfigError: If `root` is given and is no folder.
    """
    roots, path = search_path(root), _as_path(name_or_path)
    if path is None or path.resolve().parent.name != "runs" or path.resolve().parents[1] in roots:
        return roots
    return (path.resolve().parents[1], *roots)


def is_shipped(path: Path) -> bool:
    """Return whether a file came with this package or with another, and is not an operator's own."""
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in (config_root(), *config_folders()))


def names(kind: str, roots: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the names of a kind, sorted."""
    return tuple(sorted({path.stem for root in roots for path in (root / kind).glob("*.yaml")}))


def find(kind: str, name: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the file of a name, or None. A name is never a path: separators and dots find nothing.

    What stands under the name in the first folder counts, be it a file or not: an operator's own that cannot be read,
    such as a link to a folder that is not mounted, must not give way to a shipped one with wider limits.

    Raises:
        ConfigError: If two packages ship it and no folder before theirs has it, a file of that name has another ending,
            or a folder cannot be read.
    """
    for root in roots:
        _check_readable(root / kind)
    if name not in {path.stem for root in roots for path in (root / kind).glob("*.y*ml")}:
        return None
    found: list[Path] = []
    for root in roots:
        stray = root / kind / f"{name}.yml"
        if os.path.lexists(stray.with_suffix(".yaml")):
            found.append(root)
        elif os.path.lexists(stray) and not found:
            raise ConfigError(f"{shown_path(stray)} ends in .yml, must end in .yaml to be found; rename it")
    if not found:
        return None
    shipped = {config_root().resolve(), *(folder.resolve() for folder in config_folders())}
    if len(found) > 1 and found[0] in shipped and found[1] in shipped:
        listing = " and ".join(shown_path(root / kind) for root in found)
        raise ConfigError(f"{name}.yaml is in {listing}, must be in one; uninstall a package, or copy it to ./{FOLDER}")
    return found[0] / kind / f"{name}.yaml"


def _check_readable(folder: Path) -> None:
    """Refuse a folder that is there and cannot be read, such as a link to one that is not mounted."""
    if not os.path.lexists(folder):
        return
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise ConfigError(
            f"{shown_path(folder)} cannot be read ({error.strerror}), must be a folder that can; mount it, or check "
            "whose it is"
        ) from error


def read_named(kind: str, reference: Located, roots: tuple[Path, ...], mistakes: list[Mistake]) -> Located | None:
    """Read the file that a value names, or return None after adding that there is none, with the names there are."""
    name = reference.value
    if not isinstance(name, str):
        return None  # the model of the referring file says so
    path = find(kind, name, roots)
    if path is not None:
        return read(path, mistakes)
    mistakes.append(Mistake(mark=reference.mark, key=reference.key, text=_not_found(kind, name, roots)))
    return None


def run_file(name_or_path: str | Path, roots: tuple[Path, ...]) -> Path:
    """Return the run file of a name, or the path itself if it looks like one.

    Raises:
        ConfigError: If there is no run of that name; the message lists those there are.
    """
    given = _as_path(name_or_path)
    if given is not None:
        return given
    text = str(name_or_path)
    path = find("runs", text, roots)
    if path is None:
        raise ConfigError(f"run: {_not_found('runs', text, roots)}")
    return path


def _as_path(name_or_path: str | Path) -> Path | None:
    """Return the path that a text looks like, or None for a name."""
    text = str(name_or_path)
    is_path = isinstance(name_or_path, Path) or "/" in text or text.endswith((".yaml", ".yml"))
    return Path(text) if is_path else None


def run_of_cell(cell: str, root: Path | None = None) -> str:
    """Return the run that names a cell: the one of the same name, else the only one.

    Raises:
        ConfigError: If there is no such cell, or no run or several name it; the message lists them.
    """
    roots = search_path(root)
    if find("cells", cell, roots) is None:
        raise ConfigError(f"cell: {_not_found('cells', cell, roots)}")
    using = [name for name in names("runs", roots) if _cell_of(name, roots) == cell]
    if cell in using or len(using) == 1:
        return cell if cell in using else using[0]
    listing = f"{', '.join(using)} name it; give one of them" if using else "none names it; write one in runs/"
    raise ConfigError(f"cell is {cell!r}, must be named by one run: {listing}")


def _cell_of(run: str, roots: tuple[Path, ...]) -> object:
    path = find("runs", run, roots)
    tree = read(path, []) if path is not None else None
    cell = tree.get("cell") if tree is not None else None
    return cell.value if cell is not None else None


def _not_found(kind: str, name: str, roots: tuple[Path, ...]) -> str:
    legal = names(kind, roots)
    folders = ", ".join(shown_path(root / kind) for root in roots)
    listing = ", ".join(legal) if legal else "(none yet)"
    return f"input should be one of {listing} in {folders} (got {shown(name)}){hint(name, legal) if legal else ''}"
