"""Plots of the reward audit: the model's verdict against the simulator's, and how far apart Φ keeps both outcomes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from robot_stack.report.plots.style import BLUE, RED, Sheet
from robot_stack.report.run_folder import RunRecord
from robot_stack.runs.rows import EpisodeRow


def audit_counts(episodes: list[EpisodeRow]) -> np.ndarray:
    """Count episodes by truth and by the model's verdict, int, shape (2, 2).

    Row 0 is true success, row 1 not; column 0 is declared success, column 1 not.
    """
    counts = np.zeros((2, 2), dtype=np.int64)
    for row in episodes:
        if row.truth is not None:
            counts[int(not row.truth), int(not row.declared)] += 1
    return counts


def draw_reward(record: RunRecord, path: Path) -> bool:
    """Draw the audit of the reward model; return False if it may not judge, or no truth is known to judge it by."""
    online = [row for row in record.judged()[0] if row.truth is not None]
    if not online or not record.model_judges:
        return False
    with Sheet(path, 1, 2, size=(9.0, 3.4)) as (left, right):
        _audit_panel(left, audit_counts(online))
        bins = np.linspace(0, 1, 26).tolist()
        for truth, colour, name in ((True, BLUE, "success"), (False, RED, "no success")):
            best = [row.progress_max for row in online if row.truth is truth and row.progress_max is not None]
            right.hist(best, bins=bins, color=colour, alpha=0.65, label=f"{name} ({len(best)})",
                       hatch=None if truth else "//", edgecolor="white")  # fmt: skip
        right.set(xlabel="highest Φ of the episode", ylabel="training episodes", title="Φ by what was true")
        right.legend(loc="upper left")
    return True


def _audit_panel(panel: Axes, counts: np.ndarray) -> None:
    names = (("hit", "missed success"), ("false done", "rejected rightly"))
    good = np.array([[True, False], [False, True]])
    panel.set_xlim(-0.5, 1.5)
    panel.set_ylim(1.5, -0.5)
    for i in range(2):
        for j in range(2):
            shade = 0.12 + 0.3 * counts[i, j] / max(1, counts.max())
            panel.fill_between([j - 0.48, j + 0.48], i - 0.48, i + 0.48, color=BLUE if good[i, j] else RED,
                               alpha=shade, linewidth=0)  # fmt: skip
            panel.text(j, i - 0.06, str(counts[i, j]), ha="center", va="center", fontsize=20)
            panel.text(j, i + 0.27, names[i][j], ha="center", va="center", fontsize=9)
    panel.set_xticks([0, 1], ["success", "no success"])
    panel.set_yticks([0, 1], ["success", "no\nsuccess"])
    panel.set(xlabel="the model said", ylabel="the truth was", title="Training episodes")
    panel.grid(visible=False)
    panel.tick_params(length=0)
