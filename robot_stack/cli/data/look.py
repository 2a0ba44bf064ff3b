"""`robot-stack data list`, `show` and `check`: they look at episodes and write nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from robot_stack.cli.data.common import Said, find_data
from robot_stack.datasets.check import Report, check, check_episode
from robot_stack.datasets.store_view import StoreView, broken
from robot_stack.datasets.summary import line_of, summarize, totals
from robot_stack.runs.beginning import command_line
from robot_stack.types.errors import StoreError
from robot_stack.types.finding import Level

WORST = 5
"""Demonstrations that `check` names for acting unlike the others."""


def data_list(name: str) -> Said:
    """List the episodes of a run or folder, one line each."""
    view = find_data(name)
    found, bad = summarize(view)
    document = {
        "folder": str(view.root),
        "episodes": [asdict(line) for line in found],
        "unreadable": bad,
        "unfinished": list(view.unfinished),
        "quarantined": dict(view.quarantined),
    }
    lines = [f"{'episode':32} {'kind':6} {'steps':>5} {'s':>6} {'counts as':9} {'says':8} {'human':>5}  note"]
    lines += [
        f"{line.episode_id:32} {line.kind.value:6} {line.steps:5d} {line.seconds:6.1f} {line.outcome:9} "
        f"{line.said_by:8} {line.human_share:5.0%}  {line.note}".rstrip()
        for line in found
    ]
    lines += [f"FAIL unreadable {each}: {why}" for each, why in bad.items()]
    lines += [f"FAIL quarantined {each}: {why}" for each, why in view.quarantined.items()]
    lines += [f"warn unfinished {each}" for each in view.unfinished]
    lines += [f"{len(found)} episodes, {sum(line.steps for line in found)} steps"]
    return Said(document=document, lines=[*lines, f"Next: {command_line('data', 'check', name)}"])


def data_show(name: str, episode: str | None) -> Said:
    """Show what a folder of episodes holds, or all about one episode."""
    view = find_data(name)
    if episode is not None:
        return _show_episode(view, name, episode)
    found, bad = summarize(view)
    counts, spec = totals(found), view.spec
    steps = sum(line.steps for line in found)
    human = round(sum(line.steps * line.human_share for line in found))
    document = {
        "folder": str(view.root),
        "task": view.task,
        "text": view.text,
        **({"others": dict(view.others)} if view.others else {}),
        "spec": json.loads(spec.to_json()),
        "digest": spec.digest,
        "episodes": counts,
        "steps": steps,
        "human_steps": human,
        "unreadable": bad,
        "quarantined": dict(view.quarantined),
    }
    arms = ", ".join(f"{arm.name} ({len(arm.axes)} axes, gripper {arm.gripper.value})" for arm in spec.arms)
    cameras = ", ".join(f"{camera.name} {camera.width_px}x{camera.height_px}" for camera in spec.cameras)
    proprio = ", ".join(f"{field.name} {field.size}" for field in spec.proprio)
    lines = [
        f"{view.root}: {view.task}, {view.text!r}"
        + "".join(f"; {task_id}, {text!r}" for task_id, text in view.others.items()),
        f"  arms {arms}; cameras {cameras}; proprio {proprio}; {spec.rate_hz:g} Hz",
        f"  {len(found)} episodes, {steps} steps, {human / max(steps, 1):.0%} by an operator",
    ]
    lines += [
        f"  {kind}: {', '.join(f'{count} {outcome}' for outcome, count in each.items())}"
        for kind, each in counts.items()
    ]
    lines += [f"  FAIL {each}: {why}" for each, why in {**bad, **view.quarantined}.items()]
    return Said(document=document, lines=[*lines, f"Next: {command_line('data', 'list', name)}"])


def _show_episode(view: StoreView, name: str, episode_id: str) -> Said:
    reason = broken(view.path(episode_id))
    if reason is not None:
        raise StoreError(
            f"episode {episode_id} is broken ({reason}), must match its checksums; restore it from a copy or leave it"
        )
    stored = view.read(episode_id)
    line, header, labels = line_of(view, stored), stored.header, view.labels_of(episode_id)
    findings = check_episode(stored)
    document = {
        **asdict(line),
        "header": asdict(header),
        "labels": [asdict(label) for label in labels],
        "arrays": {key: {"dtype": str(rows.dtype), "shape": list(rows.shape)} for key, rows in stored.arrays.items()},
        "findings": [finding.to_json() for finding in findings],
    }
    lines = [
        f"{episode_id}: {line.kind.value}, {line.steps} steps in {line.seconds:.1f} s, ended as {line.end.value}, "
        f"counts as {line.outcome} ({line.said_by}), {line.human_share:.0%} by an operator",
        f"  actor {header.actor}, seed {header.seed}, reset {header.reset.value}, help level {header.level}",
    ]
    lines += [f"  label {label.verdict.value} by {label.source.value} {label.note}".rstrip() for label in labels]
    lines += [f"  note {line.note}"] if line.note else []
    lines += [f"  {key} {rows.dtype} {rows.shape}" for key, rows in stored.arrays.items()]
    lines += [f"  {finding.level.value} {finding.check}: {finding.sentence}" for finding in findings]
    return Said(document=document, lines=[*lines, f"Next: {command_line('data', 'check', name)}"])


def data_check(name: str) -> Said:
    """Check all episodes and tell what was found; the exit code is 1 if anything is no mere warning."""
    view = find_data(name)
    report = check(view)
    failed = sum(finding.level is Level.FAIL for finding in report.findings)
    document = {
        "folder": str(view.root),
        "episodes": report.episodes,
        "findings": [finding.to_json() for finding in report.findings],
        "quality": {episode_id: asdict(quality) for episode_id, quality in report.quality.items()},
    }
    lines = [f"{finding.level.value} {finding.check}: {finding.sentence}" for finding in report.findings]
    lines += _quality_lines(report)
    lines.append(f"{report.episodes} episodes checked: {failed} failed, {len(report.findings) - failed} warned")
    mending = command_line("data", "edit", name, "--out", "FOLDER", "--discard", "EPISODE")
    following = mending if report.findings else "nothing to mend"
    return Said(document=document, lines=[*lines, f"Next: {following}"], code=1 if failed else 0)


def _quality_lines(report: Report) -> Iterator[str]:
    if not report.quality:
        return
    yield "demonstrations that act least like the others (0 alike, 1 unrelated):"
    for name in sorted(report.quality, key=lambda each: -report.quality[each].action_divergence)[:WORST]:
        quality = report.quality[name]
        yield (
            f"  {name}: action divergence {quality.action_divergence:.2f}, transition diversity "
            f"{quality.transition_diversity:.2f}"
        )
