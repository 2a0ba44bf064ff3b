"""Checks for episodes whose label, kind or content contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robot_stack.datasets.limits import CheckLimits
from robot_stack.datasets.summary import RECORDED, EpisodeSummary
from robot_stack.types.event import Label, LabelSource
from robot_stack.types.transition import EpisodeKind


def contradictions(
    line: EpisodeSummary, labels: Sequence[Label], last_success: float | None, limits: CheckLimits
) -> list[str]:
    """Find what does not fit together in an episode, one phrase each.

    Args:
        line: How the episode counts.
        labels: Its labels.
        last_success: Success probability of its last frame by the newest reward model, or None.
        limits: `score_low`, `score_high`.
    """
    if line.outcome == "discard":
        return []
    who = "its recorded end" if line.said_by == RECORDED else f"the {line.said_by}"
    found = []
    if line.truth is not None and line.outcome in ("success", "failure") and line.outcome != line.truth:
        found.append(f"it counts as {line.outcome} by {who}, but the simulator says {line.truth}")
    said = {label.verdict.value for label in labels if label.source is LabelSource.OPERATOR}
    if len(said) > 1:
        found.append(f"the operator said {' and '.join(sorted(said))}; the newest word counts, {line.outcome}")
    if last_success is not None and np.isfinite(last_success):
        if line.outcome == "success" and last_success < limits.score_low:
            found.append(f"it counts as success by {who}, but the reward model gives its end {last_success:.2f}")
        if line.outcome == "failure" and last_success > limits.score_high:
            found.append(f"it counts as failure by {who}, but the reward model gives its end {last_success:.2f}")
    if line.kind is EpisodeKind.DEMO and line.outcome != "success":
        found.append(f"it is a demonstration that counts as {line.outcome}, must be a success to be imitated")
    if line.kind is EpisodeKind.DEMO and line.human_share < 0.5:
        found.append(f"it is a demonstration of which an operator did {line.human_share:.0%}, must be most of it")
    if line.kind is EpisodeKind.EVAL and line.human_share > 0:
        found.append(f"it is an evaluation of which an operator did {line.human_share:.0%}, must be nothing")
    return found


def copies(digests: Mapping[str, str]) -> dict[str, str]:
    """Map each episode that is a copy to the first one with the same motions at the same times."""
    first: dict[str, str] = {}
    return {name: first[digest] for name, digest in digests.items() if first.setdefault(digest, name) != name}
