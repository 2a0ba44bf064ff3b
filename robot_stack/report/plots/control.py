"""Histograms of tick jitter and observation age, and the learner's values and losses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatter, NullLocator

from robot_stack.report.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Sheet, plain_curve
from robot_stack.report.run_folder import RunRecord, numbers
from robot_stack.runs.rows import UpdateRow
from robot_stack.types.transition import EpisodeKind

JITTER_LIMIT_MS = 20.0
AGE_LIMIT_MS = 60.0


class PlainLog(LogFormatter):
    """Ticks of a log axis as plain numbers: powers as 10^n are set as mathematics, which is slow to draw."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the number at a tick, or nothing where ticks stand too close."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def _logarithmic(axis: Axis) -> None:
    axis.set_major_formatter(PlainLog())
    axis.set_minor_formatter(PlainLog(minor_thresholds=(1, 0.4)))


def draw_control(record: RunRecord, path: Path) -> bool:
    """Draw tick jitter and observation age; return False if no actor wrote about its ticks."""
    controls = record.controls(EpisodeKind.ONLINE)
    jitter, age = numbers(row.jitter_ms for row in controls), numbers(row.age_ms for row in controls)
    if not jitter.size or not age.size:
        return False
    with Sheet(path, 1, 2, size=(9.0, 3.2)) as (left, right):
        _histogram(left, jitter, JITTER_LIMIT_MS, "tick jitter [ms]")
        _histogram(right, age, AGE_LIMIT_MS, "observation age [ms]")
        left.set_ylabel("ticks")
    return True


def _histogram(panel: Axes, values: np.ndarray, limit: float, label: str) -> None:
    p99 = float(np.percentile(values, 99))
    end = max(1.25 * limit, float(values.max()))
    panel.hist(values, bins=np.linspace(0, end, 61).tolist(), color=BLUE, log=True, histtype="stepfilled")
    _logarithmic(panel.yaxis)
    panel.yaxis.set_minor_locator(NullLocator())
    panel.axvline(p99, color=GREEN, linewidth=1.8, label=f"p99 {p99:.1f} ms")
    panel.axvline(limit, color=RED, linestyle="--", linewidth=1.8, label=f"limit of the p99 {limit:.0f} ms")
    panel.set(xlabel=label, xlim=(0, end), title=f"{values.size} ticks, largest {values.max():.1f} ms")
    panel.set_ylim(bottom=0.7, top=panel.get_ylim()[1] * 8)  # room for the legend
    panel.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")


def draw_learner(record: RunRecord, path: Path) -> bool:
    """Draw the learner's values and losses; return False if it logged no update."""
    rows = record.updates()
    if not rows:
        return False
    sheet = Sheet(path, 1, 3, size=(9.0, 3.0))
    with sheet as (values, critic, actor):
        _lines(sheet, values, rows, [("q", "Q of the batch", BLUE, "-"), ("target_q", "target", ORANGE, "--")])
        values.set(title="Value", ylabel="discounted return")
        values.legend(loc="lower right")
        _lines(sheet, critic, rows, [("critic_loss", "critic loss", PURPLE, "-")])
        critic.set_title("Critic loss")
        if _positive(rows, "critic_loss"):
            critic.set_yscale("log")
            _logarithmic(critic.yaxis)
        _lines(sheet, actor, rows, [("actor_loss", "actor loss", GREY, "-")])
        actor.set(title="Actor loss")
        for panel in (values, critic, actor):
            panel.set_xlabel("updates [thousands]")
    return True


def _lines(sheet: Sheet, panel: Axes, rows: list[UpdateRow], wanted: Sequence[tuple[str, str, str, str]]) -> None:
    """Draw metrics over updates, each with its key, name, colour and dashes, and tell of them."""
    updates, curves = np.array([row.updates / 1000 for row in rows]), []
    for key, name, colour, dashes in wanted:
        y = np.array([row.metrics.get(key, np.nan) for row in rows], dtype=np.float64)
        known = ~np.isnan(y)
        panel.plot(updates[known], y[known], color=colour, linestyle=dashes, linewidth=1.4, label=name)
        curves.append(plain_curve(panel, name, colour, y))
    sheet.tell(updates, [f"{row.updates} updates, {row.env_steps} steps" for row in rows], curves)


def _positive(rows: list[UpdateRow], key: str) -> bool:
    values = numbers(row.metrics.get(key) for row in rows)
    return bool(values.size and values.min() > 0)
