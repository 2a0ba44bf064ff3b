"""Success, interventions and cycle time over training episodes, and imitation beside reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from reward_models.metrics import wilson_interval
from robot_stack.report.plots.style import BLUE, GREEN, GREY, ORANGE, Curve, Sheet
from robot_stack.report.run_folder import Figures, RunRecord, episode_names, episode_numbers

WINDOW = 20


def rolling_rate(outcomes: np.ndarray, window: int = WINDOW) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rate over the last `window` outcomes, with its Wilson interval.

    Args:
        outcomes: bool, shape (N,).
        window: How many count; fewer at the start.

    Returns:
        Rate, lower and upper bound, each shape (N,).
    """
    total = np.concatenate([[0], np.cumsum(outcomes)])
    counts = np.minimum(np.arange(1, len(outcomes) + 1), window)
    hits = total[1:] - total[1:][np.arange(len(outcomes)) - counts] * (np.arange(len(outcomes)) >= counts)
    bounds = np.array([wilson_interval(int(h), int(n)) for h, n in zip(hits, counts)]).reshape(-1, 2)
    return hits / counts, bounds[:, 0], bounds[:, 1]


def rolling_share(part: np.ndarray, whole: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return the sum of `part` over the sum of `whole` in the last `window` entries, shape (N,).

    The share is 0 where there is no whole.
    """
    kernel = np.ones(window)
    sums = [np.convolve(values, kernel)[: len(values)] for values in (part, whole)]
    return np.divide(sums[0], sums[1], out=np.zeros(len(part)), where=sums[1] > 0)


def draw_learning(record: RunRecord, path: Path) -> bool:
    """Draw success, human steps and length over training episodes; return False if there are none."""
    online, minutes = record.judged()
    if not online:
        return False
    number = episode_numbers([row.episode_id for row in online])
    won = np.array([row.succeeded for row in online])
    alone = np.array([row.succeeded and row.alone for row in online])
    human = np.array([row.human_steps for row in online], dtype=np.float64)
    steps = np.array([row.steps for row in online], dtype=np.float64)
    sheet = Sheet(path, 3, size=(9.0, 7.6), share_x=True)
    with sheet as (top, middle, bottom):
        first = np.array([not row.goes_back for row in online])
        curves = _success_panel(top, number, won, alone, first)
        share = 100 * rolling_share(human, steps)
        middle.fill_between(number, share, color=ORANGE, alpha=0.35, linewidth=0)
        middle.plot(number, share, color=ORANGE)
        middle.axhline(3, color=GREY, linestyle=":", linewidth=1.2)
        middle.text(number[-1], 3.4, "target at the end 3 %", ha="right", va="bottom", color=GREY, fontsize=8)
        middle.set(ylabel="human steps [%]", ylim=(0, max(10.0, 1.15 * share.max())), title="An operator in control")
        duration = np.array([row.duration_s for row in online])
        bottom.scatter(number[won], duration[won], s=14, color=GREEN, label="success")
        bottom.scatter(number[~won], duration[~won], s=16, color=GREY, marker="x", label="no success")
        bottom.set(ylabel="length [s]", xlabel="episode", title="How long an episode took")
        bottom.set_ylim(0, 1.3 * duration.max())  # room for the legend
        bottom.legend(loc="upper right", ncols=2)
        bottom.set_xlim(number[0], max(number[0] + 1, number[-1]))
        said = [f"{value:.1f} %" for value in share]
        curves.append(Curve(panel=middle, name="human steps", colour=ORANGE, y=share, values=said))
        said = [f"{row.duration_s:.1f} s, {'success' if row.succeeded else 'no success'}" for row in online]
        curves.append(Curve(panel=bottom, name="length", colour=GREY, y=duration, values=said))
        names = episode_names([row.episode_id for row in online])
        sheet.tell(number, episode_places(names, minutes), curves)
    return True


def episode_places(names: Sequence[str], minutes: np.ndarray) -> list[str]:
    """Return for each training episode what it is called, and the robot time at its end."""
    return [f"episode {each}, {min_:.1f} min of robot time" for each, min_ in zip(names, minutes)]


def _success_panel(
    panel: Axes, number: np.ndarray, won: np.ndarray, alone: np.ndarray, first: np.ndarray
) -> list[Curve]:
    """Draw success by episode, of the first task alone where tasks take turns; return what is told of it."""
    at, (rate, low, high) = number[first], rolling_rate(alone[first])
    panel.fill_between(at, 100 * low, 100 * high, color=GREEN, alpha=0.18, linewidth=0, label="95 % interval")
    told = [(rate, low, high, first, GREEN, "success without an operator")]
    told.append((*rolling_rate(won[first]), first, BLUE, "success, with help or without"))
    if not first.all():
        told.append((*rolling_rate(won[~first]), ~first, ORANGE, "success of the way back"))
    curves = []
    for rate, low, high, there, colour, name in told:
        panel.plot(number[there], 100 * rate, color=colour, linestyle="--" if colour == BLUE else "-", label=name)
        y, values = np.full(len(number), np.nan), [""] * len(number)
        y[there] = 100 * rate
        for index, *share in zip(np.flatnonzero(there), rate, low, high):
            values[index] = share_words(*share)
        curves.append(Curve(panel=panel, name=name, colour=colour, y=y, values=values))
    panel.axhline(95, color=GREY, linestyle=":", linewidth=1.2)
    panel.text(number[0] + 0.5, 95.5, "target 95 %", color=GREY, fontsize=8, va="bottom")
    panel.set(ylabel="episodes [%]", ylim=(0, 104), title="Success over the last 20 episodes")
    panel.legend(loc="lower right", ncols=3 if first.all() else 2)
    return curves


def share_words(rate: float, low: float, high: float) -> str:
    """Return a rate in per cent with its interval."""
    return f"{100 * rate:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def draw_comparison(record: RunRecord, path: Path) -> bool:
    """Draw a bar per evaluated policy; return False if none was evaluated."""
    evaluated = (("behaviour cloning", record.bc, ORANGE), ("policy after online training", record.policy, BLUE))
    known = [(name, row, colour) for name, row, colour in evaluated if row is not None and row.get("episodes")]
    if not known:
        return False
    with Sheet(path, size=(9.0, 1.1 + 0.75 * len(known))) as (panel,):
        for height, (_, row, colour) in enumerate(reversed(known)):
            rate = 100 * row["success"] / row["episodes"]
            low, high = (100 * bound for bound in row["wilson95"])
            panel.barh(height, rate, height=0.6, color=colour)
            panel.plot([low, high], [height, height], color="black", linewidth=1.6)
            panel.plot([low, high], [height, height], color="black", marker="|", markersize=9, linestyle="none")
            panel.text(103, height, _words(row), va="center", fontsize=9)
        panel.set_yticks(range(len(known)), [name for name, _, _ in reversed(known)])
        panel.axvline(95, color=GREY, linestyle=":", linewidth=1.2)
        panel.set(xlim=(0, 140), xlabel="success on held-out resets [%]", xticks=range(0, 101, 20))
        panel.grid(axis="y", visible=False)
        panel.spines["bottom"].set_bounds(0, 100)
    return True


def _words(row: Figures) -> str:
    cycle = f", {row['cycle_s']:.1f} s a cycle" if row.get("cycle_s") is not None else ""
    return f"{row['success']} of {row['episodes']}{cycle}"
