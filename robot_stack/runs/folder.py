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
from robot_stack.config.safety import LIMITS
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
def begun(run: ResolvedRun, folder: Path, *parts: Part) -> Iterator[tuple[str, ...]]:
    """Hold parts of a run as `holding` does, in a folder that is of no other run, also where two begin in it at once.

    The configuration in a folder says whose it is: of several processes that find none one writes it.

    Yields:
        What of the cell is not as it was, see `check_own`.

    Raises:
        ConfigError: If the folder is of another run, or another process has one of the parts going on there.
        StoreError: If the disk refuses.
    """
    with holding(folder, *parts):
        with disk_errors(f"beginning a run in {folder}"):
            create_durable(RunPaths(folder).resolved, run.to_yaml().encode(), mode=0o644)
        yield check_own(run, folder)


def check_own(wanted: ResolvedRun, folder: Path) -> tuple[str, ...]:
    """Refuse to go on in a folder with another run than it is of, naming what differs; a new folder is anybody's.

    A real cell changes while a run goes on in it: a camera is replaced, a box made smaller, a limit tightened. Of such
    a run only what is learned must be as before, and no limit looser. In simulation everything must be as before:
    figures of two cells are not those of one run.

    Returns:
        What of a real cell is not as it was when the run last went on, a line each.

    Raises:
        ConfigError: If it is of another task, seed, spec or setting.
    """
    if not RunPaths(folder).resolved.is_file():
        return ()
    saved = load_resolved(RunPaths(folder).resolved)
    if saved.spec().digest != wanted.spec().digest:
        raise ConfigError(
            f"{folder} is of another spec (arms, cameras, proprio or rate); choose another NAME or folder"
        )
    ours, theirs = dict(_comparable(wanted)), dict(_comparable(saved))
    changed = []
    for key in sorted(set(ours) | set(theirs)):
        if ours.get(key) == theirs.get(key):
            continue
        if wanted.simulated or not _is_of_the_cell(key) or _is_looser(key, theirs.get(key), ours.get(key)):
            raise ConfigError(
                f"{folder} has {key} = {theirs.get(key)!r}, asked for is {ours.get(key)!r}; "
                "use the same settings to go on with it, or choose another NAME or folder"
            )
        changed.append(f"{key} is {ours.get(key)!r} now, it was {theirs.get(key)!r}")
    return tuple(changed)


def _comparable(run: ResolvedRun) -> list[tuple[str, Any]]:
    return [(key, value) for key, value, _ in run.values() if key != "cell.learner_address"]


def _is_of_the_cell(key: str) -> bool:
    """Return whether a dotted key says how the cell is, and not what is learned in it."""
    return key.partition(".")[0] not in ("run", "task") or key.startswith("task.safety.")


def _is_looser(key: str, before: Any, now: Any) -> bool:
    """Return whether a dotted key is a limit of the safety process that is not as tight as before."""
    part, _, name = key.partition(".")
    return part == "safety" and name in LIMITS and (before is not None and (now is None or now > before))
