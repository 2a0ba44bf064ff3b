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
    """Collects the decisions of one arm; `take` returns their mean since the previous `take`."""

    def __init__(self) -> None:
        self._decisions: list[Decision] = []

    def add(self, decision: Decision) -> None:
        """Add the decision of one filter tick."""
        self._decisions.append(decision)

    def take(self) -> ExecutedMotion:
        """Return the means over the window and its dominant source, and begin a new window.

        An empty window is a HOLD at rest.

        A single human tick makes the window HUMAN: the correction began or ended inside it.
        """
        decisions, self._decisions = self._decisions, []
        if not decisions:
            zeros = np.zeros(6)
            return ExecutedMotion(
                twist=zeros, gripper=None, human_twist=zeros.copy(), human_gripper=0, source=Source.HOLD, clipped=False
            )
        human = [d for d in decisions if d.source is Source.HUMAN]
        clamped = tuple(dict.fromkeys(name for d in decisions for name in d.clamped))
        presses = [d.command.gripper for d in human if d.command.gripper is not None]
        grippers = [d.command.gripper for d in decisions if d.command.gripper is not None]
        return ExecutedMotion(
            twist=np.mean([d.command.twist for d in decisions], axis=0),
            gripper=grippers[-1] if grippers else None,
            human_twist=np.sum([d.requested for d in human], axis=0) / len(decisions) if human else np.zeros(6),
            human_gripper=0 if not presses else (1 if presses[-1] > 0.5 else -1),
            source=dominant(d.source for d in decisions),
            clipped=bool(clamped),
            clamped=clamped,
        )


def dominant(sources: Iterable[Source]) -> Source:
    """Return the source that a step of several ticks or arms counts as: HUMAN first, then IDLE, HOLD and POLICY."""
    there = set(sources)
    for source in (Source.HUMAN, Source.IDLE, Source.HOLD):
        if source in there:
            return source
    return Source.POLICY
