"""Finds what the command line names: RUN is a folder or a name under runs/, CELL a cell, a run or a path."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.checked_run import load_checked
from robot_stack.config.files.library import find, run_of_cell, search_path
from robot_stack.config.resolve import load_resolved, with_cell_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.runs.folder import check_own
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.spec import BASE

RUNS = Path("runs")


def load_cell(name: str, overrides: Sequence[str] = (), root: Path | None = None) -> ResolvedRun:
    """Load the run of that name or path, as `load_checked` does; for the name of a cell, load the run that names it.

    Raises:
        ConfigError: If there is neither, several runs name the cell, or a process would refuse it.
    """
    roots = search_path(root)
    is_cell = find("runs", name, roots) is None and find("cells", name, roots) is not None
    return load_checked(run_of_cell(name, root) if is_cell else name, overrides, root)


def find_folder(name: str) -> Path:
    """Return the folder of a run that was started.

    Raises:
        ConfigError: If there is none, or nothing was started in it; the message lists the runs there are.
    """
    for candidate in (RUNS / name, Path(name)):
        resolved = RunPaths(candidate).resolved
        if resolved.is_file():
            return candidate
        if candidate.is_dir():
            raise ConfigError(
                f"run folder is {candidate}, must hold {resolved.name}; start the run with robot-stack sim or up"
            )
    there = sorted(path.name for path in RUNS.iterdir() if path.is_dir()) if RUNS.is_dir() else []
    listing = f"one of {', '.join(there)}" if there else "a run that has been started"
    raise ConfigError(f"run is {name!r}, must be {listing}, or a folder; start one with robot-stack sim --name {name}")


def own_folder(wanted: ResolvedRun, folder: Path | None) -> Path:
    """Return `folder`, or runs/NAME: the one place of a run that several commands go on with.

    What of a real cell has changed since is told.

    Raises:
        ConfigError: If it is of another run.
    """
    place = RUNS / wanted.name if folder is None else folder
    _tell(place, check_own(wanted, place))
    return place


def _tell(folder: Path, changed: Sequence[str]) -> None:
    for line in changed:
        print(f"{folder}: {line}", file=sys.stderr)


def run_and_policy(name: str, policy: str) -> tuple[ResolvedRun, Path, Path | None]:
    """Return a run, its folder, and the file of one of its policies; None stands for its base policy.

    A base policy needs no training: where nothing was started yet, the run's file is enough.

    Raises:
        ConfigError: If there is no such run, no such policy, or no base policy.
    """
    if policy != BASE:
        folder = find_folder(name)
        path = policy_file(folder, policy)
        return _on_its_cell(folder), folder, path
    try:
        folder = find_folder(name)
    except ConfigError:
        resolved = load_cell(name)
        folder = own_folder(resolved, None)
    else:
        resolved = _on_its_cell(folder)
    if resolved.run.base is None:
        raise ConfigError(f"policy is 'base', but run {resolved.name} has no base policy; add base: to its file")
    return resolved, folder, None


def _on_its_cell(folder: Path) -> ResolvedRun:
    """Load the run of a folder; one of a real cell that has its files here, on the cell as these say it now.

    Raises:
        ConfigError: If those files are wrong, or of another spec than the run.
    """
    saved = load_resolved(RunPaths(folder).resolved)
    if saved.simulated or find("runs", saved.name, search_path(None)) is None:
        return saved
    now = with_cell_of(saved, load_checked(saved.name))
    _tell(folder, check_own(now, folder))
    return now


def policy_file(folder: Path, policy: str) -> Path:
    """Return the file of a policy that a run has saved.

    Raises:
        ConfigError: If there is none of that name; the message lists those there are.
    """
    there = sorted(path.stem for path in folder.glob("*.safetensors") if path.stem in ("policy", "best", "bc"))
    if policy not in there:
        legal = f"one of {there}" if there else "saved first"
        raise ConfigError(
            f"policy of {folder} is {policy!r}, must be {legal}; finish the run, or copy it from the learner's machine"
        )
    return RunPaths(folder).policy(policy)


def say_progress(what: str, number: int, count: int) -> None:
    """Print progress to stderr, in about ten lines."""
    if number == count or number % max(1, count // 10) == 0:
        print(f"{what} {number} of {count}", file=sys.stderr, flush=True)
