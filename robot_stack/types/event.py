"""Verdicts on an episode, given after the fact. Append-only: a later label of equal rank replaces an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdict that a label gives on an episode."""

    SUCCESS = "success"
    FAILURE = "failure"
    DISCARD = "discard"


class LabelSource(StrEnum):
    """The giver of a verdict. OPERATOR overrides MODEL; TRUTH (simulator) is kept for audits and never trains."""

    MODEL = "model"
    OPERATOR = "operator"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A verdict on one episode.

    Attributes:
        stamp_unix_s: When, seconds since the epoch.
    """

    episode_id: str
    verdict: Verdict
    source: LabelSource
    stamp_unix_s: float
    note: str = ""


LATER_S = 1e-3
"""By so much a new label is later than one that a clock ahead has stamped."""


def stamp_after(labels: Iterable[Label], now_unix_s: float) -> float:
    """Return a stamp for a new label of an episode, later than these of it, also if the clock was set back."""
    return max([now_unix_s, *(label.stamp_unix_s + LATER_S for label in labels)])
