"""Summaries of what each arm executed between two control ticks, over the filter's faster ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from robot_stack.types.command import Clamp, Decision, Source


@dataclass(slots=True, kw_only=True)
class ExecutedMotion:
    """The mean executed motion of one arm over a control period, an `ExecutedWindow`.

    It is not frozen, because that Protocol has plain attributes.

    Attributes:
        clamped: Every limit that changed something in the window.
    """

    twist: np.ndarray
    gripper: float | None
    human_twist: np.ndarray
    human_gripper: int
    source: Source
    clipped: bool
    clamped: tuple[Clamp, ...] = field(default=())


class ExecutedAccumulator:
    """Collects the decisions of one arm; `take` returns their mean since the previous `take`.

    It keeps sums, so that a cell that waits for hours fills no memory.
    """

    def __init__(self) -> None:
        self._gripper: float | None = None
        self._sources: set[Source] = set()
        self._clamped: dict[Clamp, None] = {}
        self._begin()

    def add(self, decision: Decision) -> None:
        """Add the decision of one filter tick."""
        command = decision.command
        self._count += 1
        self._twist += command.twist
        self._sources.add(decision.source)
        self._clamped |= dict.fromkeys(decision.clamped)
        if command.gripper is not None:
            self._gripper = command.gripper
        if decision.source is Source.HUMAN:
            self._human_twist += decision.requested
            if command.gripper is not None:
                self._press = 1 if command.gripper > 0.5 else -1

    def take(self) -> ExecutedMotion:
        """Return the means over the window and its dominant source, and begin a new window.

        An empty window is a HOLD at rest.

        A single human tick makes the window HUMAN: the correction began or ended inside it.
        """
        count = max(1, self._count)
        motion = ExecutedMotion(
            twist=self._twist / count,
            gripper=self._gripper,
            human_twist=self._human_twist / count,
            human_gripper=self._press,
            source=dominant(self._sources) if self._sources else Source.HOLD,
            clipped=bool(self._clamped),
            clamped=tuple(self._clamped),
        )
        self._begin()
        return motion

    def _begin(self) -> None:
        self._count = 0
        self._twist, self._human_twist = np.zeros(6), np.zeros(6)
        self._gripper, self._press = None, 0
        self._sources, self._clamped = set(), {}


def dominant(sources: Iterable[Source]) -> Source:
    """Return the source that a step of several ticks or arms counts as: HUMAN first, then IDLE, HOLD and POLICY."""
    there = set(sources)
    for source in (Source.HUMAN, Source.IDLE, Source.HOLD):
        if source in there:
            return source
    return Source.POLICY
