"""Verdicts on episodes, by whom, and the ten seconds in which the newest one can be taken back. Pure.

Labels are only ever appended, so nothing that was sent can be unsaid, only answered. A verdict from the list is
therefore kept back until its ten seconds are over. One that ended an episode is at the learner at once: taken back,
the verdict before it counts again, and where there was none the episode is set aside until somebody says what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from robot_stack.console.messages import PageError
from robot_stack.types.event import Label, LabelSource, Verdict, stamp_after

UNDO_NS = 10_000_000_000
_RANK = {LabelSource.MODEL: 1, LabelSource.OPERATOR: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerdict:
    """The newest verdict of an operator.

    Attributes:
        label: What was said.
        before: What counted until then, or None.
        said_ns: When, on the monotonic clock.
        kept_back: Whether it may be sent only once it can no longer be taken back.
    """

    label: Label
    before: Label | None
    said_ns: int
    kept_back: bool


class Verdicts:
    """The verdict that counts for each episode, and the newest one while it can still be taken back."""

    def __init__(self) -> None:
        self._counts: dict[str, Label] = {}
        self._newest: OperatorVerdict | None = None

    def label(self, episode_id: str, verdict: Verdict, now_unix_s: float) -> Label:
        """Make the label of an operator's verdict, later than what counts so far."""
        held = self._counts.get(episode_id)
        return operator_label(episode_id, verdict, stamp_after([held] if held is not None else [], now_unix_s))

    def counts(self, episode_id: str) -> Label | None:
        """Return the label that counts for an episode; None if nobody has said anything."""
        return self._counts.get(episode_id)

    def load(self, labels: Iterable[Label]) -> None:
        """Take in labels from others.

        The operator's counts before the model's, and a later one before an earlier.
        """
        for label in labels:
            if label.source in _RANK:
                self._take(label)

    def claim(self, label: Label) -> None:
        """Take in a verdict of the reward model."""
        self._take(label)

    def ended(self, label: Label, now_ns: int) -> None:
        """Take in an operator's verdict that others were told: it ended the episode, or answered the model's claim."""
        self._hear(label, now_ns, kept_back=False)

    def say(self, label: Label, now_ns: int) -> None:
        """Take in an operator's verdict on an episode of the list; it is sent once it can no longer be taken back."""
        self._hear(label, now_ns, kept_back=True)

    def to_take_back(self, now_ns: int, now_unix_s: float) -> tuple[OperatorVerdict, Label | None]:
        """Return the newest verdict, to be taken back; it counts until `taken_back`.

        Returns:
            What was said; and what must be said now to take it back, or None if nobody has been told of it.

        Raises:
            PageError: If there is no such verdict, or it is too late.
        """
        newest = self.undoable(now_ns)
        if newest is None:
            limit_s = UNDO_NS / 1e9
            raise PageError(f"nothing was said within {limit_s:g} s, must be to be taken back; label the episode anew")
        if newest.kept_back:
            return newest, None
        verdict = newest.before.verdict if newest.before is not None else Verdict.DISCARD
        return newest, self.label(newest.label.episode_id, verdict, now_unix_s)

    def taken_back(self, newest: OperatorVerdict, answer: Label | None) -> None:
        """Take in that a verdict was taken back, by that answer; what was said since then stays."""
        episode_id = newest.label.episode_id
        if self._newest is newest:
            self._newest = None
        if self._counts.get(episode_id) == newest.label:
            self._counts.pop(episode_id)
            if newest.before is not None:
                self._counts[episode_id] = newest.before
        if answer is not None:
            self._take(answer)

    def undoable(self, now_ns: int) -> OperatorVerdict | None:
        """Return the newest verdict of an operator while it can be taken back, else None."""
        newest = self._newest
        return newest if newest is not None and now_ns - newest.said_ns < UNDO_NS else None

    def kept_back(self, now_ns: int) -> Label | None:
        """Return the label that may not be sent yet, or None."""
        newest = self.undoable(now_ns)
        return newest.label if newest is not None and newest.kept_back else None

    def _hear(self, label: Label, now_ns: int, *, kept_back: bool) -> None:
        before = self._counts.get(label.episode_id)
        self._newest = OperatorVerdict(label=label, before=before, said_ns=now_ns, kept_back=kept_back)
        self._take(label)

    def _take(self, label: Label) -> None:
        held = self._counts.get(label.episode_id)
        if held is None or _order(label) >= _order(held):
            self._counts[label.episode_id] = label


def operator_label(episode_id: str, verdict: Verdict, stamp_unix_s: float) -> Label:
    """Make the label of an operator's verdict."""
    return Label(episode_id=episode_id, verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=stamp_unix_s)


def _order(label: Label) -> tuple[int, float]:
    return _RANK[label.source], label.stamp_unix_s
