"""Every plot of a run as PNG, SVG and PDF in its folder `plots/`; a plot without anything to show is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from robot_stack.report import plot_control, plot_critic, plot_learning, plot_progress, plot_reward
from robot_stack.report.run_folder import RunRecord
from robot_stack.report.style import SUFFIXES


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot and what it says.

    Attributes:
        name: Of its file, without suffix.
        title: Heading in the report.
        caption: How to read it, with the definition of what is drawn.
        path: Where the PNG is.
    """

    name: str
    title: str
    caption: str
    path: Path


Draw = Callable[[RunRecord, Path], bool]
PLOTS: tuple[tuple[str, str, str, Draw], ...] = (
    (
        "learning",
        "Success and interventions",
        "Each point covers the last 20 training episodes. Success is the simulator's word where there is one, "
        "else the operator's, else the model's; the band is the 95 % Wilson interval of success without an operator. "
        "Human steps are those that an operator executed, as a share of all.",
        plot_learning.draw_learning,
    ),
    (
        "bc_vs_rl",
        "Imitation beside reinforcement learning",
        "The same demonstrations, the same held-out resets, no operator. Bars are success rates with 95 % Wilson "
        "intervals; cycle time is the mean over successes.",
        plot_learning.draw_comparison,
    ),
    (
        "progress",
        "Progress Φ along an episode",
        "Φ by the newest reward model, from 0 (start) to 1 (done). Shaded: an operator was in control.",
        plot_progress.draw_progress,
    ),
    (
        "reward",
        "What the reward model said, against the truth",
        "Left: training episodes by the model's word and the simulator's. Right: the highest Φ of each episode; the "
        "two groups should not overlap. VOC, in the table above, is the rank correlation of Φ with time; the clock "
        "gets 1 without reading an image, so VOC alone proves nothing.",
        plot_reward.draw_reward,
    ),
    (
        "critic",
        "What the critic knew before it was trained on it",
        "Each episode is asked of a copy of the critic from when it began. Top left, over the last 50 episodes: steps "
        "in which Q ranks a correction above what the policy proposed, and, in episodes that the policy ended well "
        "alone, its own action above a random one; a critic that knows nothing gets 50 %. Top right: Q beside the "
        "discounted return, where the episode ended by itself. Bottom left: an error well above that of the batches "
        "means that the critic learns by heart. Bottom right: which term moves the actor.",
        plot_critic.draw_critic,
    ),
    (
        "control",
        "The control loop's times",
        "All ticks of the training episodes, counts on a log axis. Jitter is the distance of a tick from when it was "
        "due, age that of the oldest part of an observation when the policy sees it.",
        plot_control.draw_control,
    ),
    (
        "learner",
        "Values and losses",
        "Means over one batch, logged every few hundred updates. Q should settle within the range of the returns, "
        "which end at 1.",
        plot_control.draw_learner,
    ),
)


def draw_plots(record: RunRecord) -> list[Plot]:
    """Draw all plots that the run has something to show for."""
    folder = record.paths.plots
    drawn = []
    for name, title, caption, draw in PLOTS:
        path = folder / f"{name}.png"
        if draw(record, path):
            drawn.append(Plot(name=name, title=title, caption=caption, path=path))
        else:
            for suffix in SUFFIXES:
                path.with_suffix(suffix).unlink(missing_ok=True)  # of an earlier report
    return drawn
