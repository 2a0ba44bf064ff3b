"""The figures of the help that a run's policy asked for: requests, needs, and the attention that it all took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from robot_stack.runs.rows import AskingRow, HelpRow, MetricsRow, of_kind
from robot_stack.types.help import HelpEnd, HelpKind


def help_figures(rows: Sequence[MetricsRow]) -> dict[str, Any] | None:
    r"""Compute the figures of the help that was asked for, from an actor's rows; None where nobody asks.

    share needed = #(requests that were needed) / #(requests of which it is known);
    share missed = #(needs without a request) / #(needs), which are those and the requests that were needed.
    """
    episodes, requests = of_kind(rows, AskingRow), of_kind(rows, HelpRow)
    if not episodes:
        return None
    needed = sum(row.needed is True for row in requests)
    known = sum(row.needed is not None for row in requests)
    missed = sum(row.missed for row in episodes)
    robot_s = sum(row.duration_s for row in episodes)
    attention_s = sum(row.attention_s for row in episodes)
    return {
        "requests": len(requests),
        "needed": needed,
        "not_needed": known - needed,
        "share_needed": _share(needed, known),
        "missed": missed,
        "share_missed": _share(missed, missed + needed),
        "by_evidence": sum(row.calibrated for row in requests),
        "ends": {end.value: sum(row.end is end for row in requests) for end in HelpEnd},
        "reasons": {kind.value: sum(row.reason is kind for row in requests) for kind in HelpKind},
        "on_request": all(row.on_request for row in episodes),
        "attention_s": round(attention_s, 1),
        "attention_share": _share(attention_s, robot_s),
        "in_hand_s": round(sum(row.in_hand_s for row in episodes), 1),
        "base_s": round(sum(row.base_s for row in requests), 1),
        "robot_time_s": round(robot_s, 1),
        "evaluate_ms_p99": max((row.evaluate_ms_p99 or 0.0 for row in episodes), default=None),
    }


def help_section(figures: dict[str, Any] | None, rows: Sequence[MetricsRow]) -> str:
    """Render the section of the report about the help that was asked for; "" where nobody asks."""
    if figures is None:
        return ""
    looks = "looked only when asked" if figures["on_request"] else "looked all the time"
    share, base_s = figures["share_needed"], figures["base_s"]
    sentence = (
        f"The policy asked {figures['requests']} times, {figures['by_evidence']} of them by what it had learnt of its "
        f"signals. {figures['needed']} requests were needed and {figures['not_needed']} were not"
        + ("" if share is None else f" ({100 * share:.0f} % needed)")
        + f"; {figures['missed']} needs came without a request. The operator {looks}: {figures['attention_s']:.0f} s "
        f"of {figures['robot_time_s']:.0f} s of robot time, {figures['in_hand_s']:.0f} s of them in hand."
        + (f" Nobody answered in time for {base_s:.0f} s, in which the base policy led the arm." if base_s else "")
    )
    table = Counter((row.reason.value, row.end.value, _word(row.needed)) for row in of_kind(rows, HelpRow))
    lines = "".join(
        f"<tr><td>{count}x</td><td>{escape(reason)}</td><td>{escape(end)}</td><td>{word}</td></tr>"
        for (reason, end, word), count in sorted(table.items(), key=lambda entry: -entry[1])
    )
    head = "<tr><th></th><th>asked for</th><th>ended</th><th>needed</th></tr>"
    shown = f"<div class=wide><table>{head}{lines}</table></div>" if lines else ""
    return f"<h2>Help that was asked for</h2><p>{sentence}</p>{shown}"


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _word(needed: bool | None) -> str:
    return "not known" if needed is None else "yes" if needed else "no"
