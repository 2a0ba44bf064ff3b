"""Schedules of tasks that take turns: each from a reset of the scene, or each where the one before has ended.

Without resets, a task that failed is tried again from where it ended. Every so often, and after some failures in a row,
the scene is put back all the same, and the first task begins: errors add up, and an object out of reach ends it.

Source: RoboFuME (Yang et al., 2023, arXiv:2310.15145), a task and its reverse learned at once by one policy that is
told which; there by words, here by the entry `direction` of proprio. Deviation: the task changes with success instead
of with each episode, since a way back cannot begin at a task that is not done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from robot_stack.config.task import TaskConfig
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.types.errors import StackError
from robot_stack.types.transition import EndReason


class Turn(NamedTuple):
    """The turn of a task: which one the next episode is of, and whether the scene is put back before it."""

    task_id: str
    fresh: bool


class TaskSchedule(Protocol):
    """A schedule that says whose turn it is and is told how each episode went."""

    def next(self, number: int) -> Turn:
        """Return whose turn the next episode is, which has this number."""
        ...

    def ended(self, turn: Turn, *, success: bool) -> None:
        """Take in whether the episode of a turn succeeded."""
        ...

    def lost(self) -> None:
        """Mark the scene as unknown, so that the next episode starts with a fresh one."""
        ...


class RoundRobin:
    """A schedule of tasks that each begin with a fresh scene, one after the other by the number of the episode.

    It remembers nothing, so that a run that was killed goes on with the task that is next.

    Args:
        task_ids: Of the tasks, in the order in which they take turns.
    """

    def __init__(self, task_ids: Sequence[str]) -> None:
        self._task_ids = tuple(task_ids)

    def next(self, number: int) -> Turn:
        """Return whose turn it is, see `TaskSchedule`."""
        return Turn(self._task_ids[number % len(self._task_ids)], fresh=True)

    def ended(self, turn: Turn, *, success: bool) -> None:
        """Take in that an episode ended: the next one is of the next task, however it went."""

    def lost(self) -> None:
        """Take in that the scene is unknown, as it is before each episode."""


class Carried:
    """A schedule of tasks of which each begins where the one before has ended.

    It begins with the first task and a fresh scene, also after a restart.

    Args:
        task_ids: Of the tasks, in the order in which they take turns.
        every: Episodes after which the scene is put back all the same.
        tries: And after so many in a row without success.
    """

    def __init__(self, task_ids: Sequence[str], *, every: int = 1, tries: int = 1) -> None:
        self._task_ids = tuple(task_ids)
        self._every = every
        self._tries = tries
        self._now = 0
        self._since: int | None = None
        self._failed = 0

    def next(self, number: int) -> Turn:
        """Return whose turn it is, see `TaskSchedule`; the number decides nothing."""
        if self._since is None or self._since >= self._every or self._failed >= self._tries:
            return Turn(self._task_ids[0], fresh=True)
        return Turn(self._task_ids[self._now], fresh=False)

    def ended(self, turn: Turn, *, success: bool) -> None:
        """Take in how an episode ended, see `TaskSchedule`."""
        self._since = 1 + (0 if turn.fresh or self._since is None else self._since)
        self._failed = 0 if success else 1 + (0 if turn.fresh else self._failed)
        self._now = (self._task_ids.index(turn.task_id) + success) % len(self._task_ids)

    def lost(self) -> None:
        """Mark the scene as unknown, see `TaskSchedule`."""
        self._since = None


def fresh_schedule(task: TaskConfig) -> TaskSchedule:
    """Build the schedule of episodes that all begin with a fresh scene, of a task or of several, but of no way back."""
    return RoundRobin(task.equal_ids)


def schedule_of(task: TaskConfig) -> TaskSchedule:
    """Build the schedule of a configured task; one without a way back starts each episode with a fresh scene."""
    back = task.backward
    if back is None:
        return fresh_schedule(task)
    return Carried([turn.id for turn in task.turns], every=back.every, tries=back.tries)


def run_in_turn(schedule: TaskSchedule, turn: Turn, episode: Callable[[], EpisodeOutcome]) -> EpisodeOutcome:
    """Run the episode of a turn, and tell the schedule how it went.

    One that cannot be run, or that a fault ended, leaves the scene unknown: somebody may have been in it since.
    """
    try:
        outcome = episode()
    except StackError:
        schedule.lost()
        raise
    schedule.ended(turn, success=outcome.judged_end is EndReason.SUCCESS)
    if outcome.end is EndReason.FAULT:
        schedule.lost()
    return outcome
