"""A report as JSON and as rows of a table. NaN is null: what is not known is not a number."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from reward_models.evaluate.harness import Report
from reward_models.metrics import voc

CLASSES = ("success", "partial", "fail", "apart", "stall", "mismatch")
SECTIONS = (
    "ordering", "backwards", "accuracy", "discrimination", "kinds", "ranking", "words", "axioms", "opd", "robustness",
    "cost", "canaries", "nulls", "checks",
)  # fmt: skip


def document(report: Report, *, fit_s: float | None) -> dict[str, Any]:
    """Turn a report into a JSON-able document of everything but the curves.

    Args:
        fit_s: How long the model took to fit; None if it was not fitted for this.
    """
    found, success = report.discrimination, report.accuracy.get("success")
    top: dict[str, Any] = {
        "fit_s": fit_s,
        "voc_success": report.ordering.voc.value,
        "mae": success.mae.value if success else None,
        "final_phi": {
            name: report.accuracy[name].final_phi.value if name in report.accuracy else None for name in CLASSES
        },
        "false_done": {"n": found.false_done.n, "count": found.false_done.count},
        "auc": found.auc.value,
        "voc_reversed": report.backwards.voc_reversed.value,
        "beats_null": {name: null.beaten for name, null in report.nulls.items()},
        "causal": report.axioms.causal,
        "ms_per_frame": report.cost.ms_per_frame,
        "ms_per_frame_batched": report.cost.ms_per_frame_batched,
    }
    about = {
        "model": report.model,
        "version": report.version,
        "seed": report.seed,
        "dt_s": report.dt_s,
        "verdict": report.verdict,
        "episodes": {"scored": len(report.judged), "success": sum(one.success for one in report.judged)},
        "refused": report.refused,
        "other_words_refused": report.other_words,
        "skipped": report.skipped,
        "unreadable": report.unreadable,
    }
    names = {one.name for one in report.judged}
    about["seen"] = report.seen and {
        "trained_on": report.seen.trained(names),
        "held_out": len(report.seen.held_out & names),
        "words": report.seen.words(names),
    }
    parts = {name: _plain(getattr(report, name)) for name in SECTIONS}
    result: dict[str, Any] = jsonable(top | {"sections": {"about": about, **parts}})
    return result


def table(report: Report) -> str:
    """Write a report as CSV, with a header and one line an episode."""
    rows = []
    for one in report.judged:
        both = one.known & np.isfinite(one.truth)
        errors = np.abs(one.phi - one.truth)[both]
        rows.append(
            {
                "episode": one.name,
                "kind": one.kind,
                "class": one.group,
                "success": int(one.success),
                "frames": len(one.phi),
                "unreadable": one.unreadable,
                "final_phi": one.final,
                "final_truth": float(one.truth[-1]),
                "final_done": float(one.done[-1]),
                "mae": float(errors.mean()) if len(errors) else math.nan,
                "voc": voc(one.phi[one.known]),
                "done_at": one.done_at,
                "latched": one.latched,
                "latched_ungated": one.latched_ungated,
            }
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: "" if value is None or value != value else value for key, value in row.items()} for row in rows
    )
    return text.getvalue()


def _plain(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _plain(value) for key, value in part.items()}
    if isinstance(part, tuple):
        return [_plain(value) for value in part]
    return asdict(part)


def jsonable(value: Any) -> Any:
    """Make a value JSON-able: null for what is no number, floats rounded, no numpy in it."""
    if isinstance(value, dict):
        return {key: jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
