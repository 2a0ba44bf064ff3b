"""A join of messages that were sent at one instant on several topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Part = TypeVar("Part")


class StampJoin(Generic[Part]):
    """Joins parts by their stamp: gives all of one stamp once they are there, and drops older incomplete ones.

    Args:
        names: Of the parts that belong together.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._newest: dict[str, tuple[int, Part]] = {}

    def add(self, name: str, stamp_ns: int, part: Part) -> dict[str, Part] | None:
        """Take in a part; return all parts of its stamp in the order of the names if they are complete, else None."""
        self._newest[name] = (stamp_ns, part)
        complete = {each: self._newest[each][1] for each in self._names if self._at(each) == stamp_ns}
        return complete if len(complete) == len(self._names) else None

    def _at(self, name: str) -> int | None:
        return self._newest[name][0] if name in self._newest else None
