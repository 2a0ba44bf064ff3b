"""Plots of an evaluation: final Φ by kind beside what is true, and an episode of each kind frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reward_models.evaluate.harness import Report
from reward_models.evaluate.judge import Judged
from reward_models.interface import LabelledEpisode
from robot_stack.report.film import Film, draw_film, explain
from robot_stack.report.plots.style import BLUE, GREY, RED, Sheet

ORDER = (
    "success", "regress_recover", "occlusion", "partial", "stall", "near_miss", "drop", "reverse", "wrong_object",
    "fail", "empty_hand", "left_beside", "missing", "invisible", "mismatch",
)  # fmt: skip
"""Kinds from left to right; others follow."""
MARKS = {True: (BLUE, "o"), False: (RED, "x")}
"""Success -> colour and marker."""


def kinds_of(judged: Sequence[Judged]) -> list[str]:
    """Return the kinds that occur, in the order in which they are shown."""
    there = {one.kind for one in judged}
    return [kind for kind in ORDER if kind in there] + sorted(there - set(ORDER))


def draw_finals(judged: Sequence[Judged], path: Path) -> None:
    """Draw the final Φ of every episode by kind, blue where it is a success, with the mean of what is true."""
    kinds = kinds_of(judged)
    with Sheet(path, size=(9.0, 3.6)) as (panel,):
        for place, kind in enumerate(kinds):
            members = [one for one in judged if one.kind == kind]
            jitter = np.linspace(-0.22, 0.22, len(members)) if len(members) > 1 else np.zeros(1)
            for success, (colour, marker) in MARKS.items():
                chosen = [one.success is success for one in members]
                phi = [one.final for one in members if one.success is success]
                panel.scatter(place + jitter[chosen], phi, s=16, color=colour, marker=marker, linewidths=1.1)
            truths = np.array([one.truth[-1] for one in members])
            if np.isfinite(truths).any():
                ends = place - 0.34, place + 0.34
                panel.hlines(np.nanmean(truths), *ends, color=GREY, linewidth=4, alpha=0.5, zorder=0)
        for success, (colour, marker) in MARKS.items():
            panel.scatter([], [], s=16, color=colour, marker=marker, label="success" if success else "no success")
        panel.plot([], [], color=GREY, linewidth=4, alpha=0.5, label="true progress, mean")
        panel.set_xticks(range(len(kinds)), [kind.replace("_", "\n") for kind in kinds])
        panel.set(ylim=(-0.04, 1.06), ylabel="Φ of the last frame")
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_kinds(report: Report, episodes: Sequence[LabelledEpisode], path: Path) -> None:
    """Draw of each kind the episode whose error is in the middle.

    Where the truth is not known, the error is that of the final Φ against the outcome.
    """
    kinds = kinds_of(report.judged)
    rows = -(-len(kinds) // 2)
    with Sheet(path, rows, min(2, len(kinds)), size=(12.0, 3.4 * rows)) as panels:
        for panel, kind in zip(panels, kinds):
            members = [i for i, one in enumerate(report.judged) if one.kind == kind]
            ranked = sorted(members, key=lambda i: _error(report.judged[i]))
            chosen = ranked[len(ranked) // 2]
            draw_film(panel, film_of(report.judged[chosen], episodes[chosen], report.dt_s, kind.replace("_", " ")))
        for panel in panels[len(kinds) :]:
            panel.set_axis_off()
        explain(panels[0])


def film_of(one: Judged, episode: LabelledEpisode, dt_s: float, title: str) -> Film:
    """Return the film of an episode, with what a model says of it."""
    return Film(
        title=title, frames=episode.frames, phi=one.phi, done=one.done, truth=one.truth, dt_s=dt_s, said_at=one.latched
    )


def _error(one: Judged) -> float:
    """Return the mean absolute error of Φ; without a truth, that of the final Φ against the outcome."""
    errors = np.abs(one.phi - one.truth)
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if len(known) else abs(float(np.nan_to_num(one.final)) - one.success)


def worst(report: Report, count: int) -> list[int]:
    """Return the indices of the episodes to look at first.

    False dones come first, then missed successes, then the largest errors of the final Φ: against the
    outcome, where the true progress is not known.
    """

    def rank(i: int) -> tuple[int, float]:
        one = report.judged[i]
        said = one.latched is not None
        wrong = 0 if said and not one.success else 1 if one.success and not said else 2
        meant = one.truth[-1] if np.isfinite(one.truth[-1]) else float(one.success)
        return wrong, -float(np.nan_to_num(abs(one.final - meant)))

    return sorted(range(len(report.judged)), key=rank)[:count]
