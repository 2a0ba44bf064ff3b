"""The window of sent records that the learner has not settled yet; the spool is released in order.

A record is settled once it is on the learner's disk, or refused.
"""

from __future__ import annotations

import threading

LABEL = -2
"""Index under which a label waits; it is confirmed by position."""


class AckWindow:
    """The records in flight on one connection, at most `limit`."""

    def __init__(self, first: int, limit: int = 1024) -> None:
        self._released = first
        self._limit = limit
        self._flying: dict[int, tuple[str, int]] = {}
        self._landed: set[int] = set()
        self._changed = threading.Condition()

    @property
    def released(self) -> int:
        """Return the position below which every record is on the learner's disk, or refused."""
        return self._released

    def wait_room(self, timeout_s: float) -> bool:
        """Wait until fewer than `limit` records are in flight; False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._flying) < self._limit, timeout_s)

    def sent(self, position: int, episode_id: str, index: int) -> None:
        """Note that a record is on its way; index -1 is the header of the episode."""
        with self._changed:
            self._flying[position] = (episode_id, index)

    def acked(self, episode_id: str, index: int) -> None:
        """Note that the header and all steps of the episode up to `index` are on disk."""
        with self._changed:
            self._land([p for p, (e, i) in self._flying.items() if e == episode_id and LABEL < i <= index])

    def refused(self, episode_id: str, index: int) -> None:
        """Note that this one item will never be on disk; nothing is said about those before it."""
        with self._changed:
            self._land([p for p, item in self._flying.items() if item == (episode_id, index)])

    def confirmed(self, position: int) -> None:
        """Note that the learner is done with one record: it is on disk, or will never be."""
        with self._changed:
            self._land([position])

    def wait_released(self, position: int, timeout_s: float) -> bool:
        """Wait until every record below `position` is on disk, or refused; False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._released >= position, timeout_s)

    def _land(self, positions: list[int]) -> None:
        for position in positions:
            self._flying.pop(position, None)
            self._landed.add(position)
        while self._released in self._landed:
            self._landed.remove(self._released)
            self._released += 1
        self._changed.notify_all()
