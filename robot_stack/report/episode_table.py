"""The episode table of the report: failures first, some with their first and last frames."""

from __future__ import annotations

import base64
from html import escape

from robot_stack.report.run_folder import RunRecord, episode_names
from robot_stack.report.thumbnails import png, strip
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.transition import EpisodeKind

THUMBNAILS = 24
"""Episodes with pictures; a picture is about 10 KB."""
WATCHED, WATCHED_WELL = 10, 2
"""Episodes that can be played, of the head of the table and of those that went well; each is about 100 KB."""
WENT_WELL = 3
DISCARDED = 4
OPEN_ROWS = 30
"""Rows that are seen without unfolding."""

_HEAD = "<tr><th>#</th><th>first and last frames</th><th>came to</th><th>ended by</th><th>length</th>" \
    "<th>human steps</th><th>took over</th><th>clamped steps</th><th>highest Φ</th><th>params</th></tr>"  # fmt: skip


def episodes_to_watch(record: RunRecord) -> list[tuple[str, EpisodeRow]]:
    """Choose the episodes that a reader can play, each with a title.

    They are those at the head of the table, and the newest that went well without an operator.
    """
    ordered = _ordered(record)
    model_judges = record.model_judges
    head = [entry for entry in ordered if _rank(entry[1], model_judges) < WENT_WELL][:WATCHED]
    alone = [entry for entry in ordered if entry[1].succeeded and entry[1].alone and not entry[1].discarded]
    place = {row.episode_id: at for at, row in enumerate(record.episodes(EpisodeKind.ONLINE))}
    newest = sorted((entry for entry in alone if entry not in head), key=lambda entry: -place[entry[1].episode_id])
    chosen = [*head, *newest[:WATCHED_WELL]]
    return [(f"Episode {number}: {verdict_words(row, model_judges)}", row) for number, row in chosen]


def episode_table(record: RunRecord) -> str:
    """Return an HTML table of all training episodes."""
    ordered = _ordered(record)
    if not ordered:
        return "<p>No training episode has ended yet.</p>"
    blind = record.resolved is not None and not record.resolved.cameras
    pictured = set() if blind else _pictured([row for _, row in ordered])
    lines = [_line(record, number, row, row.episode_id in pictured) for number, row in ordered]
    first, rest = "".join(lines[:OPEN_ROWS]), "".join(lines[OPEN_ROWS:])
    table = f"<table class=episodes>{_HEAD}{first}</table>"
    if rest:
        more = f"<summary>{len(lines) - OPEN_ROWS} more episodes</summary>"
        table += f"<details>{more}<table class=episodes>{_HEAD}{rest}</table></details>"
    return table


def verdict_words(row: EpisodeRow, model_judges: bool) -> str:
    """Return in words what an episode came to, and, where the model may judge, whether its verdict was right."""
    if row.discarded:
        return "discarded"
    words = "success" if row.succeeded else "no success"
    if row.truth is False and row.declared:
        words += ", declared one (refused)" if row.refused else ", declared one"
    elif row.truth is True and not row.declared and model_judges:
        words += ", missed by the model"
    return words


def _rank(row: EpisodeRow, model_judges: bool) -> int:
    """Return an episode's rank: false dones first, then failures, then missed successes, the rest, discarded ones."""
    if row.discarded:
        return DISCARDED
    won = row.succeeded
    if row.declared and not won:
        return 0
    if not won:
        return 1
    return 2 if model_judges and not row.declared else WENT_WELL


def _ordered(record: RunRecord) -> list[tuple[str, EpisodeRow]]:
    """Return the training episodes and what they are called, as the table orders them: each rank the newest first."""
    rows = record.episodes(EpisodeKind.ONLINE)
    named = list(zip(episode_names([row.episode_id for row in rows]), rows))
    return sorted(reversed(named), key=lambda entry: _rank(entry[1], record.model_judges))


def _pictured(ordered: list[EpisodeRow]) -> set[str]:
    """Choose the episodes with pictures: mostly the head of the table, and some successes."""
    if len(ordered) <= THUMBNAILS:
        return {row.episode_id for row in ordered}
    won = [row for row in ordered if row.succeeded][: THUMBNAILS // 4]
    return {row.episode_id for row in [*ordered[: THUMBNAILS - len(won)], *won]}


def _line(record: RunRecord, number: str, row: EpisodeRow, pictured: bool) -> str:
    style = "" if row.succeeded or row.discarded else " class=bad"
    share = 100 * row.human_steps / row.steps if row.steps else 0.0
    highest = "" if row.progress_max is None else f"{row.progress_max:.2f}"
    cells = (
        f"<span title='{escape(row.episode_id)}'>{escape(number)}</span>",
        _picture(record, row.episode_id) if pictured else "",
        escape(verdict_words(row, record.model_judges)) + ("" if row.first_task else f", {row.task_id or 'way back'}"),
        escape(str(row.end)),
        f"{row.duration_s:.1f} s",
        f"{share:.0f} %" if row.human_steps else "",
        f"{row.interventions}x" if row.interventions else "",
        f"{row.clipped}" if row.clipped else "",
        highest,
        f"v{row.params_version}",
    )
    return f"<tr{style}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _picture(record: RunRecord, episode_id: str) -> str:
    ends = record.first_and_last(episode_id)
    if not ends:
        return ""
    content = base64.b64encode(png(strip(*ends))).decode()
    return f"<img alt='first and last frames' src='data:image/png;base64,{content}'>"
