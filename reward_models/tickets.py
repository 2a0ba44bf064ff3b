"""Open questions, and the tickets of those who wait for them. Used by `reward_models.service`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from reward_models.interface import ClipQuery, PairQuery, Score

Query = PairQuery | ClipQuery


class Ticket:
    """A claim on answers to come, in the order of their questions. From `ScoringService.submit`."""

    def __init__(self, count: int) -> None:
        self._scores: list[Score | None] = [None] * count
        self._missing = count
        self._done = threading.Event()

    @property
    def scores(self) -> list[Score] | None:
        """Return all scores, or None as long as one is missing."""
        return [score for score in self._scores if score is not None] if self._done.is_set() else None

    def wait(self, timeout_s: float) -> bool:
        """Wait until all scores are there or the timeout is over; return whether they are there.

        For a thread that may wait, not for a control loop.
        """
        return self._done.wait(timeout_s)

    def fill(self, index: int, score: Score) -> bool:
        """Fill the place of one answer, once; return whether it was the last. Under the service's lock."""
        if self._scores[index] is not None:
            return False
        self._scores[index] = score
        self._missing -= 1
        return self._missing == 0

    def finish(self) -> None:
        """Tell who waits that all scores are there; called once, outside of the service's lock."""
        self._done.set()


@dataclass(slots=True, kw_only=True)
class OpenQuestion:
    """A question and all who wait for its answer."""

    number: int
    key: str
    query: Query
    since_s: float
    waiting: list[tuple[Ticket, int]] = field(default_factory=list)


def resolve(one: OpenQuestion, score: Score) -> list[Ticket]:
    """Give a score to all who wait for a question; return the tickets that are finished by it."""
    finished = [ticket for ticket, index in one.waiting if ticket.fill(index, score)]
    one.waiting.clear()
    return finished
