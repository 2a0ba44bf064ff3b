"""A task schedule: a task and its way back in turn, so that nobody has to reset the scene.

Where one ends, the other begins; after a try that failed the same is tried again from where it ended. Every so often,
and after some failures in a row, the scene is put back all the same: errors add up, and an object out of reach ends it.

Source: RoboFuME (Yang et al., 2023, arXiv:2310.15145), a task and its reverse learned at once by one policy that is
told which; there by words, here by the entry `direction` of proprio. Deviation: the direction changes with success
instead of with each episode, since a way back cannot begin at a task that is not done.
"""

from __future__ import annotations

from collections.abc import Callable

from robot_stack.config.task import BackwardConfig
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.types.errors import StackError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason, ResetType


class TaskSchedule:
    """A schedule that says how the next episode starts and is told how each went.

    It begins with a fresh scene, also after a restart.

    Args:
        config: Of the task; None: every episode starts anew.
    """

    def __init__(self, config: BackwardConfig | None) -> None:
        self._config = config
        self._backward = False
        self._since: int | None = None
        self._failed = 0

    def next(self) -> ResetType:
        """Return how the next episode starts: NOMINAL with a fresh scene, else CARRIED or BACK."""
        config = self._config
        if config is None or self._since is None or self._since >= config.every or self._failed >= config.tries:
            return ResetType.NOMINAL
        return ResetType.BACK if self._backward else ResetType.CARRIED

    def ended(self, start: ResetType, *, success: bool) -> None:
        """Take in whether an episode with this start succeeded."""
        fresh = start is ResetType.NOMINAL
        self._since = 1 + (0 if fresh or self._since is None else self._since)
        self._failed = 0 if success else 1 + (0 if fresh else self._failed)
        self._backward = (start is ResetType.BACK) is not success

    def lost(self) -> None:
        """Mark the scene as unknown, so that the next episode starts with a fresh one."""
        self._since = None


def run_in_turn(turns: TaskSchedule, start: ResetType, episode: Callable[[], EpisodeOutcome]) -> EpisodeOutcome:
    """Run an episode with this start, and tell `turns` how it went.

    One that cannot be run, or that a fault ended, leaves the scene unknown: somebody may have been in it since.
    """
    try:
        outcome = episode()
    except StackError:
        turns.lost()
        raise
    turns.ended(start, success=_did_it(outcome))
    if outcome.end is EndReason.FAULT:
        turns.lost()
    return outcome


def _did_it(outcome: EpisodeOutcome) -> bool:
    """Return whether an episode ended with its task done, by the operator's word where there is one."""
    if outcome.operator is not None:
        return outcome.operator is Verdict.SUCCESS
    return outcome.end is EndReason.SUCCESS
