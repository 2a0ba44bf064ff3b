"""Plot of Φ along two episodes: one early that an operator helped to succeed, one late that succeeded by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from robot_stack.report.plots.style import BLUE, GREEN, ORANGE, Sheet, plain_curve
from robot_stack.report.run_folder import RunRecord, episode_names
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import IN_HAND
from robot_stack.types.reward import EpisodeScores


def human_spans(source: np.ndarray) -> list[tuple[int, int]]:
    """Return the half-open step ranges in which an operator was in control (HUMAN or IDLE).

    Args:
        source: `Source` per step, integer, shape (T,).
    """
    held = np.isin(source, IN_HAND).astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], held, [0]])))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2])]


def chosen_episodes(online: list[EpisodeRow], scored: set[str]) -> list[tuple[str, EpisodeRow]]:
    """Choose up to two episodes with a title: the first success with an operator's help, the last without.

    Where there is no such success, any episode with or without an operator will do.
    """
    known = [row for row in online if row.episode_id in scored]
    helped = [row for row in known if row.human_steps]
    alone = [row for row in reversed(known) if row.alone]
    chosen = []
    for title, candidates in (("with an operator's help", helped), ("by itself", alone)):
        best = next((row for row in candidates if row.succeeded), candidates[0] if candidates else None)
        if best is not None:
            number = episode_names([row.episode_id for row in online])[online.index(best)]
            ending = "success" if best.succeeded else "no success"
            chosen.append((f"Episode {number}, {title}: {ending}", best))
    return chosen


def draw_progress(record: RunRecord, path: Path) -> bool:
    """Draw Φ along the chosen episodes; return False if no training episode has scores."""
    scores = record.scores
    chosen = chosen_episodes([row for row in record.judged()[0] if not row.goes_back], set(scores))
    if not chosen:
        return False
    sheet = Sheet(path, 1, len(chosen), size=(9.0, 3.3))
    with sheet as panels:
        for panel, (title, row) in zip(panels, chosen):
            _episode_panel(sheet, panel, record, row, scores[row.episode_id])
            panel.set_title(title)
        panels[0].set_ylabel("Φ, success probability")
        panels[-1].legend(loc="upper left")
    return True


def _episode_panel(sheet: Sheet, panel: Axes, record: RunRecord, row: EpisodeRow, scores: EpisodeScores) -> None:
    period_s = row.duration_s / row.steps if row.steps else 0.1
    times = np.arange(len(scores.progress)) * period_s
    stored = record.stored(row.episode_id, only=())
    spans = human_spans(stored.arrays["source"]) if stored is not None else []
    for start, stop in spans:
        panel.axvspan(start * period_s, stop * period_s, color=ORANGE, alpha=0.3, linewidth=0)
    panel.fill_between([], [], color=ORANGE, alpha=0.3, label="operator in control")
    panel.plot(times, scores.progress, color=BLUE, label="progress Φ")
    panel.plot(times, scores.success, color=GREEN, linestyle="--", linewidth=1.3, label="success probability")
    panel.set(xlabel="time in the episode [s]", ylim=(-0.02, 1.05), xlim=(0, max(times[-1], period_s)))
    held = np.zeros(len(times), dtype=bool)
    for start, stop in spans:
        held[start:stop] = True
    where = [f"{time:.1f} s{', operator in control' if by_hand else ''}" for time, by_hand in zip(times, held)]
    told = (("progress Φ", BLUE, scores.progress), ("success probability", GREEN, scores.success))
    sheet.tell(times, where, [plain_curve(panel, name, colour, y) for name, colour, y in told])
