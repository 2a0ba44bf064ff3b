"""Which reward model a run ended with, and whether it may still declare success."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AlarmRow, FitReport, RewardFitRow, of_kind

Report = TypeVar("Report", bound=FitReport)


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


def rows_about(folder: Path, version: str, prefix: str) -> list[RewardFitRow | AlarmRow]:
    """Return what another run logs that takes a reward model over: its fit and its last alarm.

    Args:
        folder: Of the run that has fitted it.
        version: Of the model.
        prefix: What the names of its episodes begin with in the other run.
    """
    rows = read_rows(RunPaths(folder).metrics).rows
    fits = [row for row in of_kind(rows, RewardFitRow) if row.version == version]
    fit = fits[-1] if fits else RewardFitRow(version=version)
    others = {task_id: _renamed(report, prefix) for task_id, report in fit.others.items()}
    alarms = [row for row in of_kind(rows, AlarmRow) if row.version == version][-1:]
    named = [replace(row, episodes=[prefix + name for name in row.episodes]) for row in alarms]
    return [replace(_renamed(fit, prefix), others=others, online_episodes=0), *named]


def _renamed(report: Report, prefix: str) -> Report:
    trained_on = None if report.trained_on is None else tuple(prefix + name for name in report.trained_on)
    return replace(report, trained_on=trained_on, held_out=tuple(prefix + name for name in report.held_out))
