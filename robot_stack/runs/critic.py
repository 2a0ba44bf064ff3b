"""Figures of a critic over the newest episodes that it was asked about before it was trained on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robot_stack.runs.rows import CriticRow

NEWEST = 50
"""Episodes that the figures cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The steps in which Q ranks one action above another, among all in which it was asked."""

    preferred: int
    asked: int

    @property
    def share(self) -> float | None:
        """Return the share of steps, .5 for a critic that knows nothing; None where none was asked about."""
        return self.preferred / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticFigures:
    """The figures of a critic over steps; None where there is no such step.

    Attributes:
        episodes: That they cover.
        td_error: Root mean square of target - Q.
        q_mean, return_mean: Means of Q, and of the discounted return that followed, over the same steps.
        corrections: An operator's action above the policy's proposal, where an operator corrected.
        own: The policy's own action above a uniform random one, in episodes that it ended well without help.
        ask_ms: Longest time for which an episode held up the update loop.
    """

    episodes: int
    td_error: float | None
    q_mean: float | None
    return_mean: float | None
    corrections: Preference
    own: Preference
    ask_ms: float | None


def critic_figures(rows: Sequence[CriticRow]) -> CriticFigures:
    """Compute the figures over the newest `NEWEST` rows."""
    newest = rows[-NEWEST:]
    squared_error = _mean(newest, lambda row: None if row.td_error is None else row.td_error**2, lambda row: row.steps)
    return CriticFigures(
        episodes=len(newest),
        td_error=None if squared_error is None else math.sqrt(squared_error),
        q_mean=_mean(newest, lambda row: row.q_mean, lambda row: row.returns),
        return_mean=_mean(newest, lambda row: row.return_mean, lambda row: row.returns),
        corrections=Preference(
            preferred=sum(row.corrections_preferred for row in newest), asked=sum(row.corrections for row in newest)
        ),
        own=Preference(preferred=sum(row.own_preferred for row in newest), asked=sum(row.own_steps for row in newest)),
        ask_ms=max((row.ask_ms for row in newest if row.ask_ms is not None), default=None),
    )


def _mean(
    rows: Sequence[CriticRow], value: Callable[[CriticRow], float | None], weight: Callable[[CriticRow], int]
) -> float | None:
    """Return the mean of a value over the steps of all rows that have it."""
    known = [(found, weight(row)) for row in rows if (found := value(row)) is not None]
    total = sum(count for _, count in known)
    return sum(found * count for found, count in known) / total if total else None
