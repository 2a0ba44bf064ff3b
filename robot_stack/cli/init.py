"""`robot-stack init NAME`: a cell, a task and a run of one's own, copied from a shipped example with its comments."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from robot_stack.config.files.library import FOLDER, config_root, names, run_file
from robot_stack.config.resolve import load_run
from robot_stack.types.errors import ConfigError

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
SCHEMA = "schema"
WRITES = {"cells": (), "tasks": ("name",), "runs": ("cell", "task")}
"""Kind of file -> its keys that get the new name."""


def run(name: str, like: str = "fr3_table") -> int:
    """Write hardware_configs/{cells,tasks,runs}/NAME.yaml here, and what an editor checks them with.

    Raises:
        ConfigError: If the name cannot be one, is taken, or no such run is shipped; nothing is written.
    """
    shipped = config_root()
    _refuse(name, like, shipped)
    example = load_run(run_file(like, (shipped,)), root=shipped)
    sources = {"cells": example.run.cell, "tasks": example.run.task, "runs": like}
    texts = {kind: _renamed((shipped / kind / f"{old}.yaml").read_text(), kind, name) for kind, old in sources.items()}
    written = [_write(kind, name, like, text) for kind, text in texts.items()]
    if Path(FOLDER).resolve() != shipped.resolve():  # in a checkout they are the same
        shutil.copytree(shipped / SCHEMA, Path(FOLDER) / SCHEMA, dirs_exist_ok=True)
    load_run(name)  # an example that does not fit is a defect of ours, not a surprise at the robot
    for path in written:
        print(f"Written: {path}")
    others = ", ".join(other for other in names("runs", (shipped,)) if other not in (like, name))
    print(f"Every line of them is an example, of {like}; {name} is yours to correct. Others, for --like: {others}")
    simulated = example.is_environment or all(robot.backend == "sim" for robot in example.robots.values())
    start = f"robot-stack sim --task {name}" if simulated else f"robot-stack doctor {name}"
    print(f"Next: edit them, then robot-stack show {name}, then {start}")
    return 0


def _refuse(name: str, like: str, shipped: Path) -> None:
    if not NAME.fullmatch(name):
        raise ConfigError(f"name is {name!r}, must be a-z, 0-9 and _ and begin with a letter, as in my_table")
    examples = names("runs", (shipped,))
    if like not in examples:
        raise ConfigError(f"--like is {like!r}, must be one of {', '.join(examples)}")
    taken = [path for kind in WRITES for root in (Path(FOLDER), shipped) if (path := _path(root, kind, name)).exists()]
    if taken:
        raise ConfigError(f"name {name!r} is taken by {', '.join(map(str, taken))}, must be new; take another one")


def _path(root: Path, kind: str, name: str) -> Path:
    return root / kind / f"{name}.yaml"


def _renamed(text: str, kind: str, name: str) -> str:
    for key in WRITES[kind]:
        text, count = re.subn(rf"^({key}: *)\S+", rf"\g<1>{name}", text, flags=re.MULTILINE)
        if count != 1:
            raise ConfigError(f"example in {kind} has {count} lines {key!r}, must have one; reinstall robot-stack")
    return text


def _write(kind: str, name: str, like: str, text: str) -> Path:
    """Write the file with a word on where it is from, after the line for the editor; return its path."""
    first, _, rest = text.partition("\n")
    path = _path(Path(FOLDER), kind, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n# Made by robot-stack init {name} --like {like}.\n{rest}")
    return path
