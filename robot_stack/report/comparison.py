"""comparison.html: a page that shows runs side by side, in one file that holds everything it shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from robot_stack.disk.durable import write_durable
from robot_stack.report.html import STYLE
from robot_stack.report.plot_learning import WINDOW, rolling_rate, rolling_share
from robot_stack.report.run_folder import RunRecord, read_run
from robot_stack.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Sheet
from robot_stack.report.summary import summarise
from robot_stack.report.targets import Figure, figures
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.transition import EpisodeKind

COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
"""Lines of different runs differ in print and for every eye."""
PAGE = "comparison.html"
PLOT = "comparison.png"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of the runs that are compared.

    Attributes:
        name: Unique on the page.
        record: What was read of it.
        lines: Its figures.
    """

    name: str
    record: RunRecord
    lines: list[Figure]


def write_comparison(folders: Sequence[Path]) -> Path:
    """Write comparison.html and plots/comparison.png into the first folder; returns the page's path.

    Args:
        folders: Of two runs or more, at most as many as there are colours.

    Raises:
        ConfigError: If they are too few, too many, or one is named twice.
        StoreError: If a folder does not exist.
    """
    places = [folder.resolve() for folder in folders]
    if not 2 <= len(places) <= len(COLOURS):
        raise ConfigError(f"runs to compare are {len(places)}, must be 2 to {len(COLOURS)}; name fewer, or make pages")
    if len(set(places)) < len(places):
        raise ConfigError(f"runs to compare are {', '.join(p.name for p in places)}, must differ; name each once")
    runs = [_read(place, name) for place, name in zip(places, short_names(places))]
    plot = RunPaths(places[0]).plots / PLOT
    drawn = draw(runs, plot)
    page = places[0] / PAGE
    write_durable(page, render(runs, plot if drawn else None))
    return page


def short_names(places: Sequence[Path]) -> list[str]:
    """Return the names of folders, with as many of their parents as it takes to tell them apart."""
    for depth in range(1, max(len(place.parts) for place in places) + 1):
        names = ["/".join(place.parts[-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    return [str(place) for place in places]


def _read(folder: Path, name: str) -> Compared:
    record = read_run(folder)
    return Compared(name=name, record=record, lines=figures(summarise(record), record))


def draw(runs: Sequence[Compared], path: Path) -> bool:
    """Draw success without an operator and human steps over robot time; return False if no run has trained online."""
    practised = [(index, run) for index, run in enumerate(runs) if run.record.episodes(EpisodeKind.ONLINE)]
    if not practised:
        return False
    with Sheet(path, 2, size=(9.0, 5.8), share_x=True) as (top, bottom):
        for index, run in practised:
            _curves(top, bottom, run, {"color": COLOURS[index], "linestyle": DASHES[index], "label": run.name})
        top.set(ylabel="episodes [%]", ylim=(0, 104), title=f"Success without an operator, last {WINDOW} episodes")
        top.legend(loc="lower right")
        bottom.set(ylabel="human steps [%]", xlabel="robot time [min]", title="An operator in control")
        bottom.set_ylim(0, max(10.0, bottom.get_ylim()[1]))
        bottom.set_xlim(left=0)
    return True


def _curves(top: Axes, bottom: Axes, run: Compared, look: Mapping[str, Any]) -> None:
    online = run.record.episodes(EpisodeKind.ONLINE)
    minutes = np.cumsum([row.duration_s for row in online]) / 60
    human = np.array([row.human_steps for row in online], dtype=np.float64)
    steps = np.array([row.steps for row in online], dtype=np.float64)
    alone = np.array([row.succeeded for row in online]) & (human == 0)
    first = np.array([row.first_task for row in online], dtype=bool)
    top.plot(minutes[first], 100 * rolling_rate(alone[first])[0], **look)
    bottom.plot(minutes, 100 * rolling_share(human, steps), **look)


def render(runs: Sequence[Compared], plot: Path | None) -> str:
    """Render the page of a comparison as HTML."""
    title = " beside ".join(escape(run.name) for run in runs)
    curves = ""
    if plot is not None:
        content = base64.b64encode(plot.read_bytes()).decode()
        curves = (
            f"<h2>Over robot time</h2><img alt='Success and interventions' src='data:image/png;base64,{content}'>"
            f"<p class=caption>Each point covers the last {WINDOW} training episodes, fewer at the start. Success is "
            "the simulator's word where there is one, else the operator's, else the model's.</p>"
        )
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p class=sub>{_warning(runs)}</p>
{_table(runs)}
{curves}
<h2>What differs in the configuration</h2>{_differences(runs)}
</body></html>
"""


def _warning(runs: Sequence[Compared]) -> str:
    tasks = {run.record.resolved.task.name if run.record.resolved else "an unknown task" for run in runs}
    if len(tasks) > 1:
        return f"<span class=unmet>Different tasks: {escape(', '.join(sorted(tasks)))}.</span> Figures say little."
    return f"task {escape(tasks.pop())}"


def _table(runs: Sequence[Compared]) -> str:
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    rows = []
    for lines in zip(*(run.lines for run in runs), strict=True):
        cells = "".join(f"<td{_class(figure)}>{escape(figure.value)}{_mark(figure)}</td>" for figure in lines)
        rows.append(f"<tr><td>{escape(lines[0].name)}</td>{cells}<td>{escape(lines[0].target)}</td></tr>")
    return f"<table><tr><th>figure</th>{head}<th>target</th></tr>{''.join(rows)}</table>"


def _class(figure: Figure) -> str:
    return {True: " class=met", False: " class=unmet", None: ""}[figure.met]


def _mark(figure: Figure) -> str:
    return {True: "\N{NO-BREAK SPACE}✓", False: "\N{NO-BREAK SPACE}✗", None: ""}[figure.met]


def _differences(runs: Sequence[Compared]) -> str:
    """Return an HTML table of the keys whose values differ between the runs, dotted as in `--set`."""
    unread = [run.name for run in runs if run.record.resolved is None]
    if unread:
        return f"<p>Not known: the configuration of {escape(', '.join(unread))} cannot be read.</p>"
    flat = [_flat(run.record.resolved.document()) for run in runs if run.record.resolved]
    keys = dict.fromkeys(key for each in flat for key in each)
    values = {key: [each.get(key, "—") for each in flat] for key in keys}
    rows = [_row("td", [key, *row]) for key, row in values.items() if len(set(row)) > 1]
    if not rows:
        return "<p>Nothing: the same configuration, to the letter.</p>"
    return f"<table>{_row('th', ['key', *(run.name for run in runs)])}{''.join(rows)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict) and value:
        return {k: v for name, part in value.items() for k, v in _flat(part, f"{prefix}{name}.").items()}
    return {prefix.removesuffix("."): value if isinstance(value, str) else json.dumps(value)}
