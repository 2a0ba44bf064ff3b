"""Watches how far each episode of a task with stages comes, by the simulator's truth; for evaluation alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robot_stack.types.event import Label
from robot_stack.types.interfaces import StepSink
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step


class MilestoneSink:
    """A sink that passes on what it gets, and notes which milestones held at some step; implements `StepSink`.

    Args:
        sink: Gets everything.
        look: Returns each milestone of the task, and whether it holds now; see `sim.scene.Task.milestones`.

    Attributes:
        reached: Name -> whether it held at some step, of each episode in their order.
    """

    def __init__(self, sink: StepSink, look: Callable[[], Mapping[str, bool]]) -> None:
        self._sink, self._look = sink, look
        self.reached: list[dict[str, bool]] = []

    def begin(self, header: EpisodeHeader) -> None:
        """Begin the notes of an episode."""
        self.reached.append({})
        self._sink.begin(header)

    def push(self, step: Step) -> None:
        """Look at the scene, which is as it was when the step ended."""
        now = self.reached[-1]
        for name, holds in self._look().items():
            now[name] = now.get(name, False) or holds
        self._sink.push(step)

    def label(self, label: Label) -> None:
        """Hand on a verdict."""
        self._sink.label(label)

    def mark(self, mark: StageMark) -> None:
        """Hand on a stage mark."""
        self._sink.mark(mark)


def counted(reached: list[dict[str, bool]]) -> dict[str, int]:
    """Count the episodes that reached each milestone, in the order of the task.

    >>> counted([{"opened": True, "closed": False}, {"opened": True, "closed": True}])
    {'opened': 2, 'closed': 1}
    """
    names = dict.fromkeys(name for one in reached for name in one)
    return {name: sum(one.get(name, False) for one in reached) for name in names}
