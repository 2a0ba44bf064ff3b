"""The page of a reward audit: figures by group, then the episodes that tell most, frame by frame."""

from __future__ import annotations

import json
import tempfile
from html import escape
from pathlib import Path

import numpy as np

from robot_stack.disk.durable import write_durable
from robot_stack.learner.reward.labelled import recorded_frames
from robot_stack.report.film import Film, draw_film, explain
from robot_stack.report.html import STYLE
from robot_stack.report.plots.style import Sheet
from robot_stack.report.reward_audit import REGRET, Audit, Told, as_json, audit
from robot_stack.report.reward_page import WHOLE, opd_table, picture, rate, rows
from robot_stack.report.run_folder import RunRecord, read_run

JSON, PAGE = "reward_audit.json", "reward_audit.html"


def write_audit(folder: Path) -> Path:
    """Write `reward_audit.json` and `reward_audit.html` of the run in `folder`; returns the page.

    Raises:
        StoreError: If there is no run, or nothing in it to audit.
    """
    record = read_run(folder)
    found = audit(record)
    for name, text in ((JSON, json.dumps(as_json(found), indent=2) + "\n"), (PAGE, render_audit(record, found))):
        write_durable(folder / name, text)
    return folder / PAGE


def render_audit(record: RunRecord, found: Audit) -> str:
    """Render the page of an audit as HTML."""
    name = record.folder.resolve().name
    words = [[escape(group), rate(found.false_done[group]), rate(found.missed[group])] for group in found.false_done]
    words.append(["online training, by the newest model", rate(found.false_done_now), rate(found.missed_now)])
    versions = {one.scores.version for one in found.episodes if one.scores is not None}
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>Reward audit of {escape(name)}</title><style>{STYLE}{WHOLE}</style></head><body><main>
<h1>Reward audit of {escape(name)}</h1>
<p class=sub>{len(found.episodes)} episodes · {found.unlabelled} without a label · {found.unscored} without scores ·
models {escape(", ".join(sorted(versions)) or "none")}</p>
<h2>Its word against the truth</h2>
{rows(("episodes", "false done", "missed"), words)}
<p class=caption>False done: declared a success, of the episodes without one. Missed: not declared, of the successes;
the operator may have said so first. The truth is the simulator's, or on a cell the operator's. Intervals: Wilson,
95 %.</p>
<h2>How episodes went, by Φ alone</h2>
{opd_table(found.groups)}
<p class=caption>OPD metrics, definitions of the paper: milestone is the highest quarter that Φ reached; directness is
what was gained over the length of the way; regret is the mean distance below the best Φ so far; standing still is the
share of steps with |ΔΦ| below 0.005. Intervals by bootstrap over episodes.</p>
<h2>Episodes that tell most</h2>
{_films(record, found)}
</main></body></html>
"""


def _films(record: RunRecord, found: Audit) -> str:
    films = [film for why, one in found.telling if (film := _film(record, why, one)) is not None]
    if not films:
        return "<p>No episode has both scores and frames.</p>"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telling.png"
        lines = -(-len(films) // 2)
        with Sheet(path, lines, min(2, len(films)), size=(12.0, 3.4 * lines)) as panels:
            for panel, film in zip(panels, films):
                draw_film(panel, film)
            for panel in panels[len(films) :]:
                panel.set_axis_off()
            explain(panels[0])
        return picture(path, "Φ under the frames of the most telling episodes")


def _film(record: RunRecord, why: str, one: Told) -> Film | None:
    stored = record.stored(one.name)
    if stored is None or one.scores is None or not len(stored.arrays["stamp_ns"]):
        return None
    frames = recorded_frames(stored)
    count = min(len(frames), len(one.scores.progress))
    outcome = {True: "success", False: "no success", None: "outcome not known"}[one.success]
    return Film(
        title=f"{one.name}: {why}" if why != REGRET else f"{one.name}: {why}, {outcome}",
        frames=frames[:count],
        phi=one.scores.progress[:count].astype(np.float64),
        done=one.scores.success[:count].astype(np.float64),
        truth=np.full(count, np.nan),
        dt_s=stored.spec.period_s,
        said_at=one.would_declare,
    )
