"""The outcome of an episode: the operator's verdict counts over the model's, and that over what was recorded.

Labels are a log. Among labels of one source the newest wins, so any verdict can be taken back by a later one, and
the order in which they arrive does not matter. TRUTH labels are for audits and are never used here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason

_RANK = {LabelSource.MODEL: 1, LabelSource.OPERATOR: 2}


class Outcome(IntEnum):
    """The outcome of an episode, which counts at its last frame."""

    OPEN = 0
    """Running, or cut short: values lie behind it."""
    SUCCESS = 1
    FAILURE = 2
    DISCARD = 3
    """Not to be trained on."""


def counting_label(labels: Iterable[Label]) -> Label | None:
    """Return the label that counts among those of one episode, or None."""
    ranked = [label for label in labels if label.source in _RANK]
    if not ranked:
        return None
    # the verdict breaks ties of source and time, so that the order of arrival never shows
    return max(ranked, key=lambda label: (_RANK[label.source], label.stamp_unix_s, label.verdict))


def verdict(labels: Iterable[Label]) -> Verdict | None:
    """Return the verdict that counts among the labels of one episode, or None."""
    label = counting_label(labels)
    return None if label is None else label.verdict


def outcome(labels: Iterable[Label], end: EndReason | None) -> Outcome:
    """Return the outcome of an episode by its labels and its end; before it has ended, only DISCARD counts."""
    said = verdict(labels)
    if said is Verdict.DISCARD:
        return Outcome.DISCARD
    if end is None:
        return Outcome.OPEN
    if said is not None:
        return Outcome.SUCCESS if said is Verdict.SUCCESS else Outcome.FAILURE
    return Outcome[end.name] if end.terminal else Outcome.OPEN


def trained_outcome(labels: Iterable[Label], end: EndReason | None) -> Outcome:
    """Return the outcome of an episode as it is learned from: that of `outcome`, but for a success that was refused.

    An episode that the model's claim of success ended, and whose claim the operator refused, was cut short: the arm did
    nothing wrong, and might have gone on. Its last frame bootstraps; for the reward model it is a negative.
    """
    labels = tuple(labels)
    claimed = counting_label(label for label in labels if label.source is LabelSource.MODEL)
    counts = outcome(labels, end)
    refused = claimed is not None and claimed.verdict is Verdict.SUCCESS and counts is Outcome.FAILURE
    return Outcome.OPEN if refused and end is EndReason.SUCCESS else counts


class OutcomeColumn:
    """The outcomes of all episodes, by id and at the row of the last frame.

    Attributes:
        ends: Episode -> why it ended, as recorded.
    """

    def __init__(self) -> None:
        self.ends: dict[str, EndReason] = {}
        self._labels: dict[str, list[Label]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._values = np.zeros(0, np.int8)

    @property
    def label_count(self) -> int:
        """Return the number of labels taken so far."""
        return sum(len(labels) for labels in self._labels.values())

    def of(self, episode_id: str) -> Outcome:
        """Return the present outcome of an episode, OPEN for one that is not known."""
        return self._outcomes.get(episode_id, Outcome.OPEN)

    def add_label(self, label: Label) -> None:
        """Take a label, unless it is there already; then `settle`."""
        known = self._labels.setdefault(label.episode_id, [])
        if label not in known:
            known.append(label)

    def settle(self, episode_id: str, last_row: int | None) -> bool:
        """Bring an episode up to date with its labels and end; True if that changed its outcome.

        Args:
            last_row: Row of its newest frame, or None before the first.
        """
        before = self.of(episode_id)
        now = trained_outcome(self._labels.get(episode_id, ()), self.ends.get(episode_id))
        self._outcomes[episode_id] = now
        if last_row is not None and episode_id in self.ends:
            self._reserve(last_row + 1)
            self._values[last_row] = now
        return before is not now

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the `Outcome` at rows, int8: OPEN unless the row is the last frame of an episode that has ended."""
        self._reserve(int(rows.max(initial=-1)) + 1)
        values: np.ndarray = self._values[rows]
        return values

    def _reserve(self, rows: int) -> None:
        if rows > len(self._values):
            self._values = np.concatenate([self._values, np.zeros(max(1024, rows), np.int8)])
