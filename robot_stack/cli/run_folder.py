"""Folders of finished or interrupted runs: RUN on the command line is a folder, or a name under runs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.table import RESOLVED
from robot_stack.types.errors import ConfigError

RUNS = Path("runs")


def find_folder(name: str) -> Path:
    """Return the folder of a run that was started.

    Raises:
        ConfigError: If there is none, or nothing was started in it; the message lists the runs there are.
    """
    for candidate in (RUNS / name, Path(name)):
        if (candidate / RESOLVED).is_file():
            return candidate
        if candidate.is_dir():
            raise ConfigError(
                f"run folder is {candidate}, must hold {RESOLVED}; start the run with robot-stack sim or up"
            )
    there = sorted(path.name for path in RUNS.iterdir() if path.is_dir()) if RUNS.is_dir() else []
    listing = f"one of {', '.join(there)}" if there else "a run that has been started"
    raise ConfigError(f"run is {name!r}, must be {listing}, or a folder; start one with robot-stack sim --name {name}")


def own_folder(wanted: ResolvedRun, folder: Path | None) -> Path:
    """Return `folder`, or runs/NAME: the one place of a run that several commands go on with.

    Raises:
        ConfigError: If it is of another run.
    """
    place = RUNS / wanted.name if folder is None else folder
    if (place / RESOLVED).is_file():
        check_same(load_resolved(place / RESOLVED), wanted, place)
    return place


def policy_file(folder: Path, policy: str) -> Path:
    """Return the file of a policy that a run has saved.

    Raises:
        ConfigError: If there is none of that name; the message lists those there are.
    """
    there = sorted(path.stem for path in folder.glob("*.safetensors") if path.stem in ("policy", "best", "bc"))
    if policy not in there:
        legal = f"one of {there}" if there else "saved first"
        raise ConfigError(f"policy of {folder} is {policy!r}, must be {legal}; finish the run, then evaluate it")
    return folder / f"{policy}.safetensors"


def check_same(saved: ResolvedRun, wanted: ResolvedRun, folder: Path) -> None:
    """Refuse to go on with a folder of another run, naming what differs.

    Raises:
        ConfigError: If it is of another task, seed, spec or setting.
    """
    if saved.spec().digest != wanted.spec().digest:
        raise ConfigError(f"{folder} is of another spec (arms, cameras, proprio or rate); choose another NAME")
    ours, theirs = dict(_comparable(wanted)), dict(_comparable(saved))
    for key in sorted(set(ours) | set(theirs)):
        if ours.get(key) != theirs.get(key):
            raise ConfigError(
                f"{folder} has {key} = {theirs.get(key)!r}, asked for is {ours.get(key)!r}; "
                "use the same settings to go on with it, or choose another NAME"
            )


def _comparable(run: ResolvedRun) -> list[tuple[str, Any]]:
    return [(key, value) for key, value, _ in run.values() if key != "cell.learner_address"]
