"""Every plot of a run as PNG, SVG and PDF in its folder `plots/`; a plot without anything to show is left out."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from robot_stack.disk.durable import disk_errors
from robot_stack.report.plots import control, critic, learning, progress, reward
from robot_stack.report.plots.style import BLUE, GREEN, GREY, GRID, ORANGE, PURPLE, RED, SUFFIXES, TOLD
from robot_stack.report.run_folder import RunRecord, read_run
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import StackError


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
        "Each point covers the last 20 training episodes. Success is the simulator's verdict where there is one, "
        "else the operator's, else the model's; the band is the 95 % Wilson interval of success without an operator. "
        "Human steps are those that an operator executed, as a share of all.",
        learning.draw_learning,
    ),
    (
        "bc_vs_rl",
        "Imitation beside reinforcement learning",
        "The same demonstrations, the same held-out resets, no operator. Bars are success rates with 95 % Wilson "
        "intervals; cycle time is the mean over successes.",
        learning.draw_comparison,
    ),
    (
        "progress",
        "Progress Φ along an episode",
        "Φ by the newest reward model, from 0 (start) to 1 (done). Shaded: an operator was in control.",
        progress.draw_progress,
    ),
    (
        "reward",
        "What the reward model said, against the truth",
        "Left: training episodes by the model's verdict and the simulator's. Right: the highest Φ of each episode; the "
        "two groups should not overlap. VOC, in the table above, is the rank correlation of Φ with time; the clock "
        "gets 1 without reading an image, so VOC alone proves nothing.",
        reward.draw_reward,
    ),
    (
        "critic",
        "What the critic knew before it was trained on it",
        "Each episode is asked of a copy of the critic from when it began. Top left, over the last 50 episodes: steps "
        "in which Q ranks a correction above what the policy proposed, and, in episodes that the policy ended well "
        "alone, its own action above a random one; a critic that knows nothing gets 50 %. Top right: Q beside the "
        "discounted return, where the episode ended by itself. Bottom left: an error well above that of the batches "
        "means that the critic learns by heart. Bottom right: which term moves the actor.",
        critic.draw_critic,
    ),
    (
        "control",
        "The control loop's times",
        "All ticks of the training episodes, counts on a log axis. Jitter is the distance of a tick from when it was "
        "due, age that of the oldest part of an observation when the policy sees it.",
        control.draw_control,
    ),
    (
        "learner",
        "Values and losses",
        "Means over one batch, logged every few hundred updates. Q should settle within the range of the returns, "
        "which end at 1.",
        control.draw_learner,
    ),
)

NAMES = tuple(name for name, *_ in PLOTS)

INK = "#000000"
IN_THE_DARK = {
    "#ffffff": "#15181c", INK: "#e6e9ed", GRID: "#363c44", GREY: "#a4adb8", BLUE: "#56b4e9",
    ORANGE: "#f0b429", GREEN: "#2fbf92", RED: "#f0965a", PURPLE: "#e09cc0",
}  # fmt: skip
"""Colour of a plot on a light page -> on a dark one."""
_NAMES = {colour.lower(): f"--plot-{number}" for number, colour in enumerate(IN_THE_DARK)}


def _variables(colours: Iterable[str]) -> str:
    return ":root {" + "; ".join(f"{name}: {colour}" for name, colour in zip(_NAMES.values(), colours)) + "}"


PALETTE = (
    f"{_variables(IN_THE_DARK)} @media (prefers-color-scheme: dark) {{{_variables(IN_THE_DARK.values())}}} "
    f"@media print {{{_variables(IN_THE_DARK)}}}"
)
"""CSS of the colours by their names, for a page and for each plot on it."""


def draw_plots(record: RunRecord, *, names: Collection[str] = NAMES) -> list[str]:
    """Draw those of the named plots that the run has something to show for; returns their names."""
    folder = record.paths.plots
    drawn = []
    for name, _, _, draw in PLOTS:
        if name not in names:
            continue
        path = folder / f"{name}.png"
        if draw(record, path):
            drawn.append(name)
        else:
            for suffix in (*SUFFIXES, TOLD):
                path.with_suffix(suffix).unlink(missing_ok=True)  # of an earlier report
    return drawn


def plots_of(paths: RunPaths, drawn: Collection[str]) -> list[Plot]:
    """Return the plots of a run that were drawn, in the order of the report."""
    return [
        Plot(name=name, title=title, caption=caption, path=paths.plots / f"{name}.png")
        for name, title, caption, _ in PLOTS
        if name in drawn
    ]


def shown(path: Path, title: str) -> str:
    """Return HTML that shows a plot, sharp at any size, in the light and in the dark, with what is told of its curves.

    Args:
        path: Of its PNG, beside which the other forms are.
        title: What it shows, for whoever does not see it.
    """
    svg = _follow(path.with_suffix(".svg").read_text(encoding="utf-8"))
    svg = svg.replace("<defs>", f"<style>{PALETTE} :root {{ fill: var({_NAMES[INK]}) }}</style><defs>", 1)
    picture = base64.b64encode(svg.encode()).decode()
    image = f"<div><img alt='{escape(title)}' src='data:image/svg+xml;base64,{picture}'></div>"
    told = path.with_suffix(TOLD)
    if not told.exists():
        return f"<figure class=plot>{image}</figure>"
    values = _follow(told.read_text(encoding="utf-8")).replace("<", "\\u003c")  # no text of a run ends the script
    script = f"<script type='application/json'>{values}</script>"
    return f"<figure class=plot data-title='{escape(title)}'>{image}{script}</figure>"


def pointing() -> str:
    """Return the script that tells the reader of a page what the curves of its plots are at the pointer."""
    script = resources.files("robot_stack.report.plots").joinpath("plot.js").read_text(encoding="utf-8")
    return f"<script>{script}</script>"


def _follow(text: str) -> str:
    """Let the colours in an SVG, or in what is told of it, follow the reader's choice of a light or a dark page."""
    return re.sub("|".join(_NAMES), lambda found: f"var({_NAMES[found[0].lower()]})", text, flags=re.IGNORECASE)


def main() -> None:
    """Draw the named plots of the run whose folder comes first; say as JSON which, or what prevented it."""
    folder, *names = sys.argv[1:]
    try:
        with disk_errors("drawing the plots"):
            answer: dict[str, object] = {"drawn": draw_plots(read_run(Path(folder)), names=names)}
    except StackError as error:
        answer = {"failed": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
