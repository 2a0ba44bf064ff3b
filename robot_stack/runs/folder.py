"""The folder of a run: whose it is, and who may start something in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import create_durable, disk_errors, make_durable
from robot_stack.disk.lock import take_lock
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError


class Part(StrEnum):
    """The parts of a run that may be going on in its folder, each once: those of `train` beside those of `act`."""

    CELL = "cell"
    """The processes of the cell, and who acts on it."""
    LEARNER = "learner"
    """Who writes the run's episodes and learns from them: the learner, or a recorder in its place."""


@contextmanager
def holding(folder: Path, *parts: Part) -> Iterator[None]:
    """Hold parts of a run, before anything is written in its folder, until the context or this process ends.

    Args:
        folder: Of the run; made if it is not there.
        parts: Those that are started.

    Raises:
        ConfigError: If another process has one of them going on there.
        StoreError: If the disk refuses.
    """

    def refusal(owner: str) -> ConfigError:
        return ConfigError(
            f"run {folder} is going on (process {owner}), must have ended; stop that process, or use another folder"
        )

    with ExitStack() as held:
        with disk_errors(f"locking {folder}"):
            make_durable(folder)
            for part in parts:
                held.callback(os.close, take_lock(RunPaths(folder).lock(part), refusal))
        yield


@contextmanager
def begun(run: ResolvedRun, folder: Path, *parts: Part) -> Iterator[None]:
    """Hold parts of a run as `holding` does, in a folder that is of no other run, also where two begin in it at once.

    The configuration in a folder says whose it is: of several processes that find none one writes it.

    Raises:
        ConfigError: If the folder is of another run, or another process has one of the parts going on there.
        StoreError: If the disk refuses.
    """
    with holding(folder, *parts):
        with disk_errors(f"beginning a run in {folder}"):
            create_durable(RunPaths(folder).resolved, run.to_yaml().encode(), mode=0o644)
        check_own(run, folder)
        yield


def check_own(wanted: ResolvedRun, folder: Path) -> None:
    """Refuse to go on in a folder with another run than it is of, naming what differs; a new folder is anybody's.

    Raises:
        ConfigError: If it is of another task, seed, spec or setting.
    """
    if not RunPaths(folder).resolved.is_file():
        return
    saved = load_resolved(RunPaths(folder).resolved)
    if saved.spec().digest != wanted.spec().digest:
        raise ConfigError(
            f"{folder} is of another spec (arms, cameras, proprio or rate); choose another NAME or folder"
        )
    ours, theirs = dict(_comparable(wanted)), dict(_comparable(saved))
    for key in sorted(set(ours) | set(theirs)):
        if ours.get(key) != theirs.get(key):
            raise ConfigError(
                f"{folder} has {key} = {theirs.get(key)!r}, asked for is {ours.get(key)!r}; "
                "use the same settings to go on with it, or choose another NAME or folder"
            )


def _comparable(run: ResolvedRun) -> list[tuple[str, Any]]:
    return [(key, value) for key, value, _ in run.values() if key != "cell.learner_address"]
