"""What a model that was fitted on recorded episodes has seen of those that it is judged on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The recorded episodes that a model was fitted on, by name.

    Attributes:
        trained_on: Those that some part of it was trained on; None if its fit did not note them.
        held_out: Those held out from that, by which it is calibrated.
    """

    trained_on: frozenset[str] | None
    held_out: frozenset[str]

    def knows(self, name: str) -> bool:
        """Return whether it was trained or calibrated on an episode."""
        return name in self.held_out or name in (self.trained_on or ())

    def trained(self, judged: Collection[str]) -> int | None:
        """Return how many of these episodes it was trained on, None if that is not known."""
        return None if self.trained_on is None else len(self.trained_on.intersection(judged))

    def words(self, judged: Collection[str]) -> str:
        """Say in a clause which of these episodes it was trained on."""
        trained, held = self.trained(judged), len(self.held_out.intersection(judged))
        if trained is None:
            return "whether it was trained on them is not known: its fit did not note its episodes"
        if trained:
            return f"it was trained on {trained} of {len(judged)}, no others are there: figures say how well it fits"
        new = len(judged) - held
        return f"it was trained on none of them: {held} were held out from its fit, {new} it has never seen"
