"""Which reward model a run ended with, and whether it may still declare success."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AlarmRow, RewardFitRow, of_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardVersion:
    """The newest reward model of a run.

    Attributes:
        version: Of its file.
        alarm: What ended trust in it, in words; empty while it is trusted.
        trained_on: Episodes that it was trained on, None if that was not noted.
        held_out: Those held out from that, by which it is calibrated.
    """

    version: str
    alarm: str
    trained_on: frozenset[str] | None
    held_out: frozenset[str]


def newest_reward(folder: Path) -> RewardVersion | None:
    """Return the newest reward model whose weights are in a run's folder, None without one."""
    paths = RunPaths(folder)
    rows = read_rows(paths.metrics).rows
    there = [row for row in of_kind(rows, RewardFitRow) if paths.reward(row.version).exists()]
    if not there or not paths.trunk.exists():
        return None
    newest = there[-1]
    against = [row for row in of_kind(rows, AlarmRow) if row.version == newest.version]
    fits = (newest, *newest.others.values())
    trained_on = [name for fit in fits for name in fit.trained_on or ()]
    return RewardVersion(
        version=newest.version,
        alarm=f"{against[-1].alarm}: {against[-1].words}" if against else "",
        trained_on=None if newest.trained_on is None else frozenset(trained_on),
        held_out=frozenset(name for fit in fits for name in fit.held_out),
    )
