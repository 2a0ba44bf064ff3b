"""The discount that batches of a run are drawn with: the algorithm's own, or one that grows with what is mastered."""

from __future__ import annotations

from robot_stack.replay.discount import DiscountSchedule
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.types.transition import EpisodeKind


class Discount:
    """The discount per tick of the next batch; it follows from the replay, so a resumed run has the same.

    Args:
        replay: Has Φ of all episodes.
        final: The algorithm's own discount.
        scheduled: Whether it grows with what the policy has mastered, by Φ in use.
    """

    def __init__(self, replay: Replay, final: float, *, scheduled: bool) -> None:
        self._replay = replay
        self._final = final
        self._scheduled = scheduled
        self._revision = -1
        self._schedule: DiscountSchedule | None = None

    @property
    def gamma(self) -> float:
        """Return the discount; the algorithm's own where no demonstration has Φ, as without a trusted reward model."""
        if self._scheduled and self._revision != (revision := self._replay.revision):
            self._revision = revision
            self._schedule = self._follow()
        return self._final if self._schedule is None else self._schedule.gamma

    @property
    def mastered(self) -> int | None:
        """Return the mastered ticks that `gamma` was last returned for; None without a schedule."""
        return None if self._schedule is None else self._schedule.mastered

    def _follow(self) -> DiscountSchedule | None:
        """Go through all demonstrations and online episodes, in order."""
        episodes = self._replay.potentials()
        demos = [
            each.phi for each in episodes if each.header.kind is EpisodeKind.DEMO and each.outcome is Outcome.SUCCESS
        ]
        if not demos:
            return None
        schedule = DiscountSchedule(demos, self._final)
        for each in episodes:
            if each.header.kind is EpisodeKind.ONLINE:
                schedule.add_episode(each.phi, done_alone=each.alone and each.outcome is Outcome.SUCCESS)
        return schedule
