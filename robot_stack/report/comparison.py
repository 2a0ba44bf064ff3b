"""comparison.html: a page that shows runs side by side, in one file that holds everything it shows.

Runs that differ in nothing but their seed are one line with a band, and their evaluations are pooled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from reward_models.metrics import wilson_interval
from robot_stack.disk.durable import write_durable
from robot_stack.report.html import STYLE
from robot_stack.report.plots.learning import WINDOW, rolling_rate, rolling_share
from robot_stack.report.plots.run import PALETTE, pointing, shown
from robot_stack.report.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Curve, Sheet
from robot_stack.report.run_folder import RunRecord, read_run
from robot_stack.report.summary import summarise
from robot_stack.report.targets import NOTHING, Figure, figures
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError

COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
"""Lines of different runs differ in print and for every eye."""
LOOKS = [
    (colour, DASHES[(at + turn) % len(DASHES)]) for turn in range(len(DASHES)) for at, colour in enumerate(COLOURS)
]
"""Of as many configurations as differ in both."""
MOST_RUNS = 100
MOST_NAMED = 4
"""Runs whose names are the page's title."""
MOST_INSIDE = 6
"""Lines whose names have room in the panel."""
PAGE = "comparison.html"
PLOT = "comparison.png"
OF_ONE_RUN = {"run.seed", "cell.learner_address"}
"""Keys that differ between runs of one configuration: the dry run takes any free port."""
GRID = 200
"""Points at which the lines of several seeds are taken together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of the runs that are compared.

    Attributes:
        name: Unique on the page.
        record: What was read of it.
        summary: What summary.json says of it.
        lines: Its figures.
    """

    name: str
    record: RunRecord
    summary: dict[str, Any]
    lines: list[Figure]


Seeds = list[Compared]
"""Runs that differ in nothing but the seed."""


def write_comparison(folders: Sequence[Path]) -> Path:
    """Write comparison.html and plots/comparison.png into the first folder; returns the page's path.

    Args:
        folders: Of two runs or more; of as many configurations at most as there are looks of a line.

    Raises:
        ConfigError: If they are too few, too many, or one is named twice.
        StoreError: If a folder does not exist.
    """
    places = [folder.resolve() for folder in folders]
    if not 2 <= len(places) <= MOST_RUNS:
        raise ConfigError(f"runs to compare are {len(places)}, must be 2 to {MOST_RUNS}; name fewer, or make pages")
    if len(set(places)) < len(places):
        raise ConfigError(f"runs to compare are {', '.join(p.name for p in places)}, must differ; name each once")
    runs = [_read(place, name) for place, name in zip(places, short_names(places))]
    groups = by_configuration(runs)
    if len(groups) > len(LOOKS):
        raise ConfigError(
            f"runs to compare are of {len(groups)} configurations, must be of at most {len(LOOKS)}; name fewer"
        )
    plot = RunPaths(places[0]).plots / PLOT
    drawn = draw(groups, plot)
    page = places[0] / PAGE
    write_durable(page, render(runs, groups, plot if drawn else None))
    return page


def by_configuration(runs: Sequence[Compared]) -> list[Seeds]:
    """Return the runs by configuration, the seed aside, in the order in which the first of each came.

    A second run of a seed is no further seed, and stays alone.
    """
    groups: dict[str, Seeds] = {}
    for run in runs:
        group = groups.setdefault(_configuration(run), [])
        if run.record.resolved is not None and run.record.resolved.run.seed in map(_seed, group):
            groups[run.name] = [run]
        else:
            group.append(run)
    return list(groups.values())


def _seed(run: Compared) -> int | None:
    return run.record.resolved.run.seed if run.record.resolved is not None else None


def _configuration(run: Compared) -> str:
    if run.record.resolved is None:
        return run.name
    flat = _flat(run.record.resolved.document())
    return json.dumps({key: value for key, value in flat.items() if key not in OF_ONE_RUN}, sort_keys=True)


def _called(group: Seeds) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1} more of its kind"


def short_names(places: Sequence[Path]) -> list[str]:
    """Return the names of folders, with as many of their parents as it takes to tell them apart."""
    for depth in range(1, max(len(place.parts) for place in places) + 1):
        names = ["/".join(place.parts[-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    return [str(place) for place in places]


def _read(folder: Path, name: str) -> Compared:
    record = read_run(folder)
    summary = summarise(record)
    return Compared(name=name, record=record, summary=summary, lines=figures(summary, record))


def draw(groups: Sequence[Seeds], path: Path) -> bool:
    """Draw success without an operator and human steps over robot time; return False if no run has trained online."""
    trained = [[run for run in group if run.record.judged()[0]] for group in groups]
    trained = [group for group in trained if group]
    if not trained:
        return False
    many = len(trained) > MOST_INSIDE
    sheet = Sheet(path, 2, size=(9.0, 5.8 + (0.11 * len(trained) if many else 0.0)), share_x=True)
    with sheet as (top, bottom):
        told = [
            lines
            for group, (colour, dash) in zip(trained, LOOKS, strict=False)
            for lines in _curves(top, bottom, group, {"color": colour, "linestyle": dash})
        ]
        top.set(ylabel="episodes [%]", ylim=(0, 104), title=f"Success without an operator, last {WINDOW} episodes")
        if many:
            bottom.legend(*top.get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        else:
            top.legend(loc="lower right")
        bottom.set(ylabel="human steps [%]", xlabel="robot time [min]", title="An operator in control")
        bottom.set_ylim(0, max(10.0, bottom.get_ylim()[1]))
        bottom.set_xlim(left=0)
        minutes = np.linspace(0, max(lines.minutes[-1] for lines in told), GRID)
        where = [f"{each:.1f} min of robot time" for each in minutes]
        by_panel = sorted(told, key=lambda lines: lines.panel is bottom)
        sheet.tell(minutes, where, [lines.told(minutes) for lines in by_panel])
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A figure of one run, or of the seeds of a configuration, over robot time.

    Attributes:
        panel: Where it is drawn.
        name: What it is of.
        colour: Of its line.
        minutes: Robot time, ascending, shape (N,).
        percent: The figure, shape (N,).
        low, high: Ends of what is drawn around it, each shape (N,); NaN where nothing is.
    """

    panel: Axes
    name: str
    colour: str
    minutes: np.ndarray
    percent: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def told(self, minutes: np.ndarray) -> Curve:
        """Return what is told of it at other minutes: nothing before its first, and nothing after its last."""
        values, low, high = (
            np.interp(minutes, self.minutes, each, left=np.nan, right=np.nan)
            for each in (self.percent, self.low, self.high)
        )
        words = [
            f"{value:.0f} %" if np.isnan(least) else f"{value:.0f} % ({least:.0f} to {most:.0f} %)"
            for value, least, most in zip(values, low, high)
        ]
        return Curve(panel=self.panel, name=self.name, colour=self.colour, y=values, values=words)


def _curves(top: Axes, bottom: Axes, group: Seeds, look: Mapping[str, Any]) -> Iterator[Line]:
    """Draw a configuration in both panels: the line of its run, or the mean of several within their range."""
    colour, called = str(look["color"]), _called(group)
    for panel, of_what, all_lines in zip(
        (top, bottom), ("", "human steps, "), zip(*map(_lines, group), strict=True), strict=True
    ):
        lines = [line for line in all_lines if len(line[0])]  # a run that has only gone back has none of the first task
        if not lines:
            continue
        if len(lines) == 1:
            minutes, percent, low, high = lines[0]
        else:
            minutes = np.linspace(0, max(line[0][-1] for line in lines), GRID)
            each = np.array([np.interp(minutes, x, y, left=np.nan) for x, y, *_ in lines])
            known = ~np.isnan(each).all(axis=0)
            minutes, each = minutes[known], each[:, known]
            percent, low, high = np.nanmean(each, axis=0), np.nanmin(each, axis=0), np.nanmax(each, axis=0)
            for x, y, *_ in lines:
                panel.plot(x, y, color=colour, linewidth=0.6, alpha=0.6)
        panel.fill_between(minutes, low, high, color=colour, alpha=0.14, linewidth=0)
        panel.plot(minutes, percent, **look, label=called if len(lines) == 1 else f"{called}: mean and range")
        name = f"{of_what}{called}"
        yield Line(panel=panel, name=name, colour=colour, minutes=minutes, percent=percent, low=low, high=high)


def _lines(run: Compared) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return success without an operator, and human steps, over robot time.

    Each is minutes, per cent, and the ends of its interval in per cent, which human steps have none of: NaN.
    """
    online, minutes = run.record.judged()
    human = np.array([row.human_steps for row in online], dtype=np.float64)
    steps = np.array([row.steps for row in online], dtype=np.float64)
    alone = np.array([row.succeeded and row.alone for row in online], dtype=bool)
    first = np.array([not row.goes_back for row in online], dtype=bool)
    nothing = np.full(len(online), np.nan)
    rates = (100 * each for each in rolling_rate(alone[first]))
    return (minutes[first], *rates), (minutes, 100 * rolling_share(human, steps), nothing, nothing)


def render(runs: Sequence[Compared], groups: Sequence[Seeds], plot: Path | None) -> str:
    """Render the page of a comparison as HTML."""
    names = [escape(run.name) for run in runs]
    title = " beside ".join(names) if len(runs) <= MOST_NAMED else f"{len(runs)} runs, from {names[0]} to {names[-1]}"
    curves = ""
    if plot is not None:
        curves = (
            f"<h2>Over robot time</h2>{shown(plot, 'Success and interventions over robot time')}"
            f"<p class=caption>Each point covers the last {WINDOW} training episodes, fewer at the start. Success is "
            "the simulator's verdict where there is one, else the operator's, else the model's. Around the line of one "
            "run is the 95 % Wilson interval of its success. Runs that differ in nothing but their seed are one line, "
            "their mean, within the range of all, with a thin line for each; one that has ended keeps its last "
            f"value.</p>{pointing()}"
        )
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{title}</title><style>{PALETTE}{STYLE}</style></head><body><main>
<h1>{title}</h1>
<p class=sub>{_warning(runs)}</p>
{_table(runs)}
{_pooled(groups)}
{curves}
<h2>What differs in the configuration</h2>{_differences(runs)}
</main></body></html>
"""


def _warning(runs: Sequence[Compared]) -> str:
    tasks = {run.record.resolved.task.name if run.record.resolved else "an unknown task" for run in runs}
    if len(tasks) > 1:
        return f"<span class=unmet>Different tasks: {escape(', '.join(sorted(tasks)))}.</span> Figures say little."
    return f"task {escape(tasks.pop())}"


def _table(runs: Sequence[Compared]) -> str:
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    rows = []
    for lines in _beside_each_other(runs):
        cells = "".join(f"<td{_class(figure)}>{escape(figure.value)}{_mark(figure)}</td>" for figure in lines)
        rows.append(f"<tr><td>{escape(lines[0].name)}</td>{cells}<td>{escape(lines[0].target)}</td></tr>")
    return _scrolled("figures", f"<tr><th>figure</th>{head}<th>target</th></tr>{''.join(rows)}")


def _beside_each_other(runs: Sequence[Compared]) -> list[list[Figure]]:
    """Return the figures of each name, one for each run; a run of a task that has no such score has nothing there."""
    by_name = [{figure.name: figure for figure in run.lines} for run in runs]
    names = dict.fromkeys(name for known in sorted(by_name, key=len, reverse=True) for name in known)
    return [[known.get(name, Figure(name=name, value=NOTHING)) for known in by_name] for name in names]


def _pooled(groups: Sequence[Seeds]) -> str:
    """Return an HTML table of the configurations with several seeds, their evaluations pooled; "" without one."""
    rows = [
        [_called(group), str(len(group)), _successes(group, "policy"), _successes(group, "bc"), _helped(group)]
        for group in groups
        if len(group) > 1
    ]
    if not rows:
        return ""
    head = ["configuration", "seeds", "policy", "behaviour cloning", "human steps, last 20 episodes"]
    words = "<p class=caption>Intervals are those of the resets of all seeds together; seeds differ by more.</p>"
    return f"<h2>Seeds together</h2>{words}<table>{_row('th', head)}{''.join(_row('td', row) for row in rows)}</table>"


def _successes(group: Seeds, which: str) -> str:
    told = [run.summary[which] for run in group if run.summary[which]["episodes"]]
    if not told:
        return "not known"
    won, tried = sum(each["success"] for each in told), sum(each["episodes"] for each in told)
    low, high = wilson_interval(won, tried)
    each = ", ".join(str(one["success"]) for one in told)
    return f"{won} of {tried} ({100 * low:.0f} to {100 * high:.0f} %); by seed {each}"


def _helped(group: Seeds) -> str:
    shares = [run.summary["training"]["human_share_last20"] for run in group]
    known = [100 * share for share in shares if share is not None]
    return f"{np.mean(known):.1f} % ({min(known):.1f} to {max(known):.1f} %)" if known else "not known"


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
    return _scrolled("settings", f"{_row('th', ['key', *(run.name for run in runs)])}{''.join(rows)}")


def _scrolled(name: str, rows: str) -> str:
    """Return an HTML table of any width, whose first column stays in view."""
    return f"<div class='wide first' tabindex=0 role=region aria-label={name}><table>{rows}</table></div>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict) and value:
        return {k: v for name, part in value.items() for k, v in _flat(part, f"{prefix}{name}.").items()}
    return {prefix.removesuffix("."): value if isinstance(value, str) else json.dumps(value)}
