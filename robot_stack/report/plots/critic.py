"""What the critic knew of episodes before it was trained on them, and how much of the actor's gradient it made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from robot_stack.report.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, Curve, Sheet, plain_curve
from robot_stack.report.run_folder import RunRecord, episode_names, episode_numbers
from robot_stack.report.targets import CORRECTIONS_TARGET, OWN_TARGET
from robot_stack.runs.critic import NEWEST
from robot_stack.runs.rows import CriticRow, UpdateRow


def draw_critic(record: RunRecord, path: Path) -> bool:
    """Draw rankings, Q beside the return, TD error and gradients; return False if no critic was asked."""
    asked, updates = record.critic(), record.updates()
    if not asked:
        return False
    sheet = Sheet(path, 2, 2, size=(9.0, 6.4))
    with sheet as (ranks, values, errors, gradients):
        _ranks(sheet, ranks, asked)
        _values(sheet, values, asked)
        _errors(sheet, errors, asked, updates)
        _gradients(sheet, gradients, updates)
    return True


def _numbers(rows: Sequence[CriticRow]) -> np.ndarray:
    return episode_numbers([row.episode_id for row in rows])


def _places(rows: Sequence[CriticRow]) -> list[str]:
    return [f"episode {each}" for each in episode_names([row.episode_id for row in rows])]


def _ranks(sheet: Sheet, panel: Axes, rows: Sequence[CriticRow]) -> None:
    number, counted, curves = _numbers(rows), np.arange(1, len(rows) + 1), []
    for name, colour, target, preferred, asked in (
        ("correction above proposal", ORANGE, CORRECTIONS_TARGET, "corrections_preferred", "corrections"),
        ("own above random", GREEN, OWN_TARGET, "own_preferred", "own_steps"),
    ):
        hits, whole = (np.cumsum([0] + [getattr(row, each) for row in rows]) for each in (preferred, asked))
        start = np.maximum(0, counted - NEWEST)
        count = whole[1:] - whole[start]
        share = np.divide(hits[1:] - hits[start], count, out=np.full(len(rows), np.nan), where=count > 0)
        panel.plot(number, 100 * share, color=colour, label=f"{name}, {count[-1]} steps")
        panel.axhline(100 * target, color=colour, linestyle=":", linewidth=1.2)
        values = [f"{100 * each:.0f} % of {steps} steps" for each, steps in zip(share, count)]
        curves.append(Curve(panel=panel, name=name, colour=colour, y=100 * share, values=values))
    panel.axhline(50, color=GREY, linestyle=":", linewidth=1.2)
    panel.text(0.02, 51, "a guess", transform=panel.get_yaxis_transform(), color=GREY, fontsize=8, va="bottom")
    panel.set(title="Steps that Q ranks right", ylabel="steps [%]", xlabel="episode", ylim=(0, 104))
    panel.set_xlim(number[0], max(number[0] + 1, number[-1]))
    panel.legend(loc="lower right")
    sheet.tell(number, _places(rows), curves)


def _values(sheet: Sheet, panel: Axes, rows: Sequence[CriticRow]) -> None:
    known = [(number, row.return_mean, row.q_mean) for number, row in zip(_numbers(rows), rows) if row.returns]
    if known:
        number, returned, q = zip(*known)
        panel.scatter(number, returned, s=14, color=GREY, label="return that followed")
        panel.scatter(number, q, s=14, color=BLUE, marker="x", label="Q before")
        panel.legend(loc="lower right")
        told = (("return that followed", GREY, returned), ("Q before", BLUE, q))
        curves = [plain_curve(panel, name, colour, np.array(y, dtype=np.float64)) for name, colour, y in told]
        sheet.tell(np.array(number), _places([row for row in rows if row.returns]), curves)
    panel.set(title="Q beside the return", ylabel="mean of an episode", xlabel="episode")
    panel.set_xlim(_numbers(rows)[0] - 1, _numbers(rows)[-1] + 1)


def _errors(sheet: Sheet, panel: Axes, asked: Sequence[CriticRow], updates: Sequence[UpdateRow]) -> None:
    held_out = np.array([(row.updates / 1000, row.td_error) for row in asked if row.td_error is not None]).reshape(
        -1, 2
    )
    panel.scatter(held_out[:, 0], held_out[:, 1], s=14, color=PURPLE, marker="x", label="of an episode, before")
    losses = [(row.updates / 1000, loss) for row in updates if (loss := row.metrics.get("critic_loss")) is not None]
    at, squared = np.array(losses).reshape(-1, 2).T
    if losses:
        panel.plot(at, np.sqrt(squared), color=GREY, linewidth=1.4, label="of the batches")
    if len(held_out):
        curves = [plain_curve(panel, "of an episode, before", PURPLE, held_out[:, 1])]
        if losses:
            of_batches = np.interp(held_out[:, 0], at, np.sqrt(squared), left=np.nan, right=np.nan)
            curves.append(plain_curve(panel, "of the batches", GREY, of_batches))
        sheet.tell(held_out[:, 0], [f"{1000 * each:.0f} updates" for each in held_out[:, 0]], curves)
    panel.set(title="TD error, root mean square", ylabel="reward, discounted", xlabel="updates [thousands]")
    panel.set_ylim(bottom=0)
    panel.legend(loc="upper right")


def _gradients(sheet: Sheet, panel: Axes, updates: Sequence[UpdateRow]) -> None:
    shares = [(row.updates / 1000, 100 * share) for row in updates if (share := row.q_share) is not None]
    if shares:
        x, of_q = np.array(shares).T
        panel.fill_between(x, of_q, color=BLUE, alpha=0.35, linewidth=0)
        panel.plot(x, of_q, color=BLUE)
        panel.text(x[0], 3, " of Q", color=BLUE, fontsize=9)
        panel.text(x[0], 97, " of imitation", color=GREY, fontsize=9, va="top")
        sheet.tell(x, [f"{1000 * each:.0f} updates" for each in x], [plain_curve(panel, "Q", BLUE, of_q, " %")])
    panel.set(title="Share of the actor's gradient", ylabel="Q [%]", xlabel="updates [thousands]", ylim=(0, 100))
