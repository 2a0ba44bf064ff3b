"""Plot of Φ along an episode, under the frames that it is of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from reward_models.interface import Frame
from robot_stack.report.plots.style import BLUE, GREEN, GREY

SHOWN = 9
"""Frames of an episode that are shown."""
ROW = 0.3
"""Height of a row of frames, in units of Φ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Frames and curves of an episode of K frames, to be drawn.

    Attributes:
        title: Above it.
        frames: K of them.
        phi: Φ, shape (K,), NaN where unreadable.
        done: Probability of done, same.
        truth: True progress, same, NaN where not known.
        dt_s: Time between two frames.
        said_at: Frame at which the model said done; None if never.
    """

    title: str
    frames: tuple[Frame, ...]
    phi: np.ndarray
    done: np.ndarray
    truth: np.ndarray
    dt_s: float
    said_at: int | None


def explain(panel: Axes) -> None:
    """Draw the legend of a film above the beginning of its curves, where they are low."""
    panel.legend(loc="upper left", bbox_to_anchor=(0.0, 1.06 / (1.13 + 2 * ROW)), fontsize=8)


def draw_film(panel: Axes, film: Film) -> None:
    """Draw an episode's curves with its frames above them, each over its own instant; one row a camera."""
    count = len(film.frames)
    times = np.arange(count) * film.dt_s
    views = sorted(film.frames[0].images)
    width = (times[-1] + film.dt_s) / SHOWN
    for row, view in enumerate(reversed(views)):
        bottom = 1.08 + row * ROW
        for i in np.unique(np.linspace(0, count - 1, SHOWN).round().astype(int)):
            left = np.clip(times[i] - width / 2, -width / 2, times[-1] - width / 2)
            panel.imshow(
                film.frames[i].images[view],
                extent=(left + 0.02 * width, left + 0.98 * width, bottom, bottom + 0.94 * ROW),
                aspect="auto",
                interpolation="nearest",
                zorder=2,  # over the grid
            )
    if np.isfinite(film.truth).any():
        panel.plot(times, film.truth, color=GREY, linewidth=3.5, alpha=0.5, label="true progress")
    panel.plot(times, film.phi, color=BLUE, label="Φ")
    panel.plot(times, film.done, color=GREEN, linestyle="--", linewidth=1.3, label="probability of done")
    if film.said_at is not None:
        panel.axvline(times[film.said_at], 0, 1.0 / (1.12 + ROW * len(views)), color=GREEN, linewidth=1.0)
        panel.text(times[film.said_at], 0.03, " says done", color=GREEN, fontsize=8)
    panel.set(
        xlim=(-width / 2, times[-1] + width / 2),
        ylim=(-0.03, 1.1 + ROW * len(views)),
        xlabel="time [s]",
        title=film.title,
        yticks=[0.0, 0.25, 0.5, 0.75, 1.0],
    )
