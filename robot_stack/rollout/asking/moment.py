"""One tick as the signals see it, and the Protocol that every signal of trouble follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from robot_stack.types.help import HelpKind, Insight
from robot_stack.types.reward import LiveScore

NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A tick at which the policy has the arm.

    Attributes:
        now_ns: Of the loop's clock.
        index: Frame of the episode.
        insight: What the policy says of its newest decision; None if it says nothing.
        score: The reward model's newest score of the episode, or None.
    """

    now_ns: int
    index: int
    insight: Insight | None = None
    score: LiveScore | None = None


class Signal(Protocol):
    """A signal of trouble. The higher its value, the more likely is help needed."""

    kind: HelpKind

    def begin(self) -> None:
        """Forget what was seen: the policy has the arm anew."""
        ...

    def value(self, moment: Moment) -> float:
        """Take in a tick and return the signal's value, NaN where it cannot be known."""
        ...

    def words(self, value: float) -> str:
        """Say a value as the reason of a request."""
        ...
