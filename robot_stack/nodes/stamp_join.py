"""Brings together what was sent at one instant on two topics."""

from __future__ import annotations

from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class StampJoin(Generic[A, B]):
    """Gives a pair once both parts of one stamp are there; an older unmatched part is dropped."""

    def __init__(self) -> None:
        self._first: tuple[int, A] | None = None
        self._second: tuple[int, B] | None = None

    def first(self, stamp_ns: int, part: A) -> tuple[A, B] | None:
        """A part of the first topic; the pair it completes, or None."""
        self._first = (stamp_ns, part)
        return self._pair()

    def second(self, stamp_ns: int, part: B) -> tuple[A, B] | None:
        """A part of the second topic; the pair it completes, or None."""
        self._second = (stamp_ns, part)
        return self._pair()

    def _pair(self) -> tuple[A, B] | None:
        if self._first is None or self._second is None or self._first[0] != self._second[0]:
            return None
        return self._first[1], self._second[1]
