"""Where a finished or interrupted run lies: RUN on the command line is a folder, or a name under runs/."""

from __future__ import annotations

from pathlib import Path

from robot_stack.nodes.process_table import RESOLVED
from robot_stack.types.errors import ConfigError

RUNS = Path("runs")


def find_folder(name: str) -> Path:
    """The folder of a run.

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
