"""report.html: one file that holds everything it shows and asks nobody for anything."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from html import escape
from typing import Any

from robot_stack.report.asked_help import help_section
from robot_stack.report.episode_table import episode_table, episodes_to_watch
from robot_stack.report.headline import advice, headline
from robot_stack.report.player import players
from robot_stack.report.plots.run import PALETTE, Plot, pointing, shown
from robot_stack.report.run_folder import RunRecord, episode_names
from robot_stack.report.targets import Figure, figures
from robot_stack.runs.rows import (
    AlarmRow,
    CheckpointFailedRow,
    EpisodeRow,
    FaultRow,
    FitRow,
    QuarantineRow,
    RefitFailedRow,
    ResumeRow,
    RewardFitRow,
    of_kind,
)
from robot_stack.types.transition import EpisodeKind

STYLE = """
:root { color-scheme: light dark; --line: #d8dce0; --soft: #57606a; --good: #00704f; --bad: #b84a00;
  --ink: #1c2024; --page: #fff; --box: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --line: #363c44; --soft: #a4adb8; --good: #4cc79a; --bad: #f0965a;
  --ink: #e6e9ed; --page: #15181c; --box: #1f242a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 1040px;
  margin: 2rem auto; padding: 0 1rem; }
.headline { margin: 1.2rem 0 .6rem; } .headline strong { display: block; font-size: 2.1rem; line-height: 1.2; }
.headline span { font-size: 1.05rem; } .advice { margin: .4rem 0 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; } .first th { overflow-wrap: anywhere; min-width: 6rem; }
.first :is(td, th):first-child { position: sticky; left: 0; background: var(--page); min-width: 11rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .4rem; } p { margin: .3rem 0 .8rem; }
.sub, .caption { color: var(--soft); } .caption { font-size: .88rem; max-width: 80ch; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--soft); } td, th { padding: .3rem .6rem .3rem 0; }
tr { border-bottom: 1px solid var(--line); } td { vertical-align: middle; }
.met { color: var(--good); font-weight: 600; } .unmet { color: var(--bad); font-weight: 600; }
.bad td:nth-child(3) { color: var(--bad); }
img { max-width: 100%; }
figure.plot { margin: .4rem 0; max-width: 990px; } figure.plot > div { position: relative; touch-action: pan-y; }
figure.plot img { width: 100%; display: block; } figure.plot > input { display: block; }
.marks, .marks > i { position: absolute; pointer-events: none; } .marks { inset: 0; }
.marks .line { width: 0; border-left: 1px solid var(--soft); }
.marks .dot { width: 9px; height: 9px; margin: -5.5px; border: 1px solid var(--page); border-radius: 50%; }
.tip { position: absolute; margin: 4px 10px; padding: .35rem .6rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--box); font-size: .82rem; line-height: 1.45; box-shadow: 0 2px 8px #0003; width: max-content;
  max-width: 46%; font-variant-numeric: tabular-nums; z-index: 1; }
.tip b, .tip span { display: block; } .tip i { display: inline-block; width: .6em; height: .6em; margin-right: .45em; }
.episodes img { display: block; height: 64px; }
pre { background: var(--box); padding: .7rem 1rem; overflow-x: auto; font-size: .85rem; border-radius: 6px; }
details summary { cursor: pointer; color: var(--soft); margin: .6rem 0; }
.players { display: flex; flex-wrap: wrap; gap: 1.2rem; } figure.play { margin: 0; width: 300px; }
figure.play canvas { width: 100%; image-rendering: pixelated; display: block; }
figure.play svg { width: 100%; height: 70px; display: block; border-bottom: 1px solid var(--line); }
figure.play svg * { vector-effect: non-scaling-stroke; }
figure.play div { display: flex; gap: .5rem; align-items: center; }
figure.play input { flex: 1; min-width: 0; } figure.play output { font-size: .85rem; min-width: 6.5em; }
figure.play button { min-width: 2.6em; } figcaption { font-size: .88rem; color: var(--soft); }
figcaption { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
@media (max-width: 640px) { .tip { top: 100% !important; left: 0 !important; right: 0 !important; max-width: none;
  width: auto; margin: 1.6rem 0 0; } }
@media print { details, figure.plot > input { display: none; } body { margin: 0; } }
"""


NUMBER = re.compile(r"\d+(?:[.:]\d+)*")
LEADING = ("learning", "bc_vs_rl")
"""Plots that stand before the table, by name."""


def render_report(record: RunRecord, summary: dict[str, Any], plots: Callable[[], list[Plot]]) -> str:
    """Render the report as HTML; the plots are asked for when all that needs no drawing is ready."""
    lines = figures(summary, record)
    name = record.folder.resolve().name
    watch, table, config = _watch(record), episode_table(record), _config(record)
    drawn = plots()
    leading, others = ("".join(_plot(p) for p in drawn if (p.name in LEADING) is first) for first in (True, False))
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>Run {escape(name)}</title><style>{PALETTE}{STYLE}</style></head><body><main>
<h1>Run {escape(name)}</h1>
<p class=sub>task {escape(str(summary["task"]))} · seed {summary["seed"]} · {_verdict(lines)}</p>
{_headline(summary, record)}
{leading}
<h2>All figures</h2>
<p>{escape(summary["critic"]["learned_from_text"])}</p>
{_box(lines)}
{_missing(summary["missing"])}
{_deployed(record)}
{others}
{watch}
<h2>Training episodes, failures first</h2><div class=wide>{table}</div>
{help_section(summary.get("asking"), record.actor_rows)}
{_reward_model(record)}
<h2>Safety and faults</h2>{_safety(record)}
<h2>How to go on</h2>{_commands(record)}
{config}
{pointing()}
</main></body></html>
"""


def _headline(summary: dict[str, Any], record: RunRecord) -> str:
    if record.quick:
        text = "A quick run: it goes through every phase in minutes, and is too short to learn."
        return f"<div class=headline><span>{text}</span></div>"
    found = headline(summary)
    result = f"<strong>{escape(found.result)}</strong>" if found.result else ""
    todo = "".join(f"<li>{escape(line)}</li>" for line in advice(summary))
    told = f"<ul class=advice>{todo}</ul>" if todo else ""
    return f"<div class=headline>{result}<span>{escape(found.rest)}</span>{told}</div>"


def _verdict(lines: list[Figure]) -> str:
    judged = [figure for figure in lines if figure.target]
    met = sum(figure.met is True for figure in judged)
    unknown = sum(figure.met is None for figure in judged)
    return f"{met} of {len(judged)} targets met" + (f", {unknown} not known" if unknown else "")


def _box(lines: list[Figure]) -> str:
    rows = []
    for figure in lines:
        mark = {True: "<span class=met>✓ met</span>", False: "<span class=unmet>✗ not met</span>"}
        state = mark[figure.met] if figure.met is not None else "not known" if figure.target else ""
        cells = (escape(figure.name), escape(figure.value), escape(figure.target), state)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>figure</th><th>this run</th><th>target</th><th></th></tr>"
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div>"


def _missing(lines: list[str]) -> str:
    if not lines:
        return ""
    entries = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details><summary>{len(lines)} figures lack their input</summary><ul>{entries}</ul></details>"


def _deployed(record: RunRecord) -> str:
    """Tell what the last deployment came to: of the policy by itself, and where an operator helped."""
    told = record.deployed
    if told is None:
        return ""
    lines = []
    for name, counted in (("by itself", told.get("alone", told)), ("with an operator's help", told.get("helped"))):
        if counted is not None and counted["episodes"]:
            low, high = (100 * end for end in counted["wilson95"])
            cycle = "" if counted["cycle_s"] is None else f"{counted['cycle_s']:.1f} s"
            success = f"{counted['success']} of {counted['episodes']} ({low:.0f} to {high:.0f} %)"
            lines.append(f"<tr><td>{name}</td><td>{success}</td><td>{cycle}</td></tr>")
    model, beside = told.get("success_model"), []
    if told.get("discarded"):
        beside.append(f"Discarded: {told['discarded']}.")
    if model is not None:
        beside.append(f"The success model said {model['declared']} times that the task was done.")
    head = "<tr><th>the policy</th><th>success, with the 95 % interval</th><th>cycle</th></tr>"
    return f"<h2>When it was deployed</h2><table>{head}{''.join(lines)}</table><p>{' '.join(beside)}</p>"


def _plot(plot: Plot) -> str:
    return f"<h2>{escape(plot.title)}</h2>{shown(plot.path, plot.title)}<p class=caption>{escape(plot.caption)}</p>"


def _watch(record: RunRecord) -> str:
    shown = players(record, episodes_to_watch(record))
    if not shown:
        return ""
    return (
        "<h2>Episodes to watch, failures first</h2>"
        f"{shown}<p class=caption>Frames as the policy saw them. Blue: progress Φ; green, dashed: probability of "
        "success, both by the newest model that scored the episode; shaded: an operator in control.</p>"
    )


def _reward_model(record: RunRecord) -> str:
    """Tell what became of the reward model: when it was fitted, distrusted and not fitted again, and why."""
    told, online, fitted = [], 0, 0
    for row in record.rows:
        if isinstance(row, EpisodeRow):
            online += row.episode_kind is EpisodeKind.ONLINE
        elif isinstance(row, RewardFitRow):
            judged = f"; VOC on held-out demonstrations {row.voc_heldout:.3f}" if row.voc_heldout is not None else ""
            told.append((online, f"fitted on {row.episodes} episodes, {row.failures} of them failed{judged}", ""))
            if row.classifier_unsure:
                words = "its success classifier has not the wanted precision: it refuses nothing"
                told.append((online, words, " class=unmet"))
        elif isinstance(row, FitRow) and row.online_episodes > fitted:  # a restart logs its fit again
            fitted = row.online_episodes
            told.append((online, f"image encoder fitted again, after {row.online_episodes} training episodes", ""))
        elif isinstance(row, AlarmRow):
            told.append((online, f"no longer trusted ({row.alarm}, {row.version}): {row.words}", " class=unmet"))
        elif isinstance(row, RefitFailedRow):
            told.append((online, f"{row.of} not fitted again: {row.reason}", " class=unmet"))
    if not told:
        return ""
    lines = "".join(f"<tr><td>{after}</td><td{mark}>{escape(what)}</td></tr>" for after, what, mark in told)
    head = "<tr><th>after so many training episodes</th><th>the reward model was, or what it sees through</th></tr>"
    return (
        f"<h2>What became of the reward model</h2><div class=wide><table>{head}{lines}</table></div>"
        "<p class=caption>While it is not trusted it neither ends an episode nor shapes the reward, until a fit "
        "restores it. A large model behind it is not fitted: after an alarm it shapes no more in this run.</p>"
    )


def _safety(record: RunRecord) -> str:
    online = record.episodes(EpisodeKind.ONLINE)
    steps = sum(row.steps for row in online)
    clipped = sum(row.clipped for row in online)
    parts = []
    if steps:
        most = max(range(len(online)), key=lambda at: online[at].clipped)
        number = episode_names([row.episode_id for row in online])[most]
        where = f", most in episode {number} ({online[most].clipped})" if clipped else ""
        share = 100 * clipped / steps
        parts.append(f"The safety filter changed {clipped} of {steps} steps ({share:.1f} %){where}.")
    reasons = Counter(reason for row in record.controls(EpisodeKind.ONLINE) for reason in row.hold_reasons)
    reasons.update(f"episode not run: {row.reason}" for row in of_kind(record.actor_rows, FaultRow))
    reasons.update(f"{row.episode_id} set aside: {row.reason}" for row in of_kind(record.rows, QuarantineRow))
    reasons.update(f"checkpoint not written: {row.reason}" for row in of_kind(record.rows, CheckpointFailedRow))
    if not reasons:
        return "".join(f"<p>{part}</p>" for part in [*parts, "No fault was reported and no episode was set aside."])
    lines = "".join(f"<tr><td>{count}x</td><td>{escape(why)}</td></tr>" for why, count in _grouped(reasons))
    return "".join(f"<p>{part}</p>" for part in parts) + f"<table>{lines}</table>"


def _grouped(reasons: Counter[str]) -> list[tuple[str, int]]:
    """Put together the reasons that differ in their numbers alone, most frequent first; the first text stands."""
    groups: dict[str, tuple[str, int]] = {}
    for why, count in reasons.items():
        key = NUMBER.sub("#", why)
        text, before = groups.get(key, (why, 0))
        groups[key] = (text, before + count)
    return sorted(groups.values(), key=lambda group: -group[1])


def _commands(record: RunRecord) -> str:
    resumes = len(of_kind(record.rows, ResumeRow))
    told = f"<p>Times the learner was resumed: {resumes}.</p>" if resumes else ""
    place = shlex.quote(str(record.folder))
    again = record.beginning and [
        "# go on where this run stopped, or do again what is missing",
        record.beginning.command,
    ]
    simulated = record.resolved is None or record.resolved.simulated
    lines = [
        *(again or []),
        *(
            ("# the policy on held-out resets, without an operator", f"robot-stack eval {place} --episodes 100")
            if simulated
            else ("# the policy on the robot, without learning", f"robot-stack deploy {place} --episodes 20")
        ),
        "# this page again",
        f"robot-stack report {place}",
    ]
    return f"{told}<pre>{escape(chr(10).join(lines))}</pre>"


def _config(record: RunRecord) -> str:
    if record.resolved is None:
        return ""
    text = escape(record.resolved.to_yaml())
    told = "the configuration of this run; robot-stack show tells the defaults of what is not named"
    return f"<details><summary>{told}</summary><pre>{text}</pre></details>"
