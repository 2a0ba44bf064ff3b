"""The list of episodes as it is sent to the page."""

from __future__ import annotations

from typing import Any

from robot_stack.datasets.catalogue import Catalogue, Course, Entry
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.stages import StageMark


def listed(catalogue: Catalogue) -> dict[str, Any]:
    """Return the episodes of a folder: the closed ones, those that still run, and those that are broken, with why."""
    view = catalogue.view
    return {
        "task": view.task,
        "text": view.text,
        "rate_hz": view.spec.rate_hz,
        "episodes": [_row(entry, catalogue.course(entry.header.episode_id)) for entry in catalogue.entries()],
        "running": list(view.unfinished),
        "broken": catalogue.bad,
    }


def _row(entry: Entry, course: Course | None) -> dict[str, Any]:
    header = entry.header
    return {
        "id": header.episode_id,
        "kind": header.kind.value,
        "task": header.task_id,
        "actor": header.actor,
        "started": header.started_unix_s,
        "steps": entry.steps,
        "end": entry.end.value,
        "outcome": entry.outcome,
        "by": entry.said_by,
        "truth": entry.truth,
        "note": entry.note,
        "labels": [
            {"verdict": each.verdict.value, "source": each.source.value, "at": each.stamp_unix_s, "note": each.note}
            for each in entry.labels
        ],
        "stages": [_mark(each) for each in entry.marks],
        "proposed": [_mark(each) for each in entry.proposed],
        "course": None if course is None else _course(course),
    }


def _mark(mark: StageMark) -> dict[str, Any]:
    return {"stage": mark.stage, "frame": mark.frame, "name": mark.name}


def _course(course: Course) -> dict[str, Any]:
    steps = sum(count for _, count in course.spans)
    held = sum(count for source, count in course.spans if source in IN_HAND)
    return {
        "s": round(course.seconds, 2),
        "human": round(held / steps, 4) if steps else 0.0,
        "takeovers": course.takeovers,
        "spans": [[Source(source).name.lower(), count] for source, count in course.spans],
    }
