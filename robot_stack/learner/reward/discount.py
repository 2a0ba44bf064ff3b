"""The discount that batches of a run are drawn with: the algorithm's own, or one that grows with what is mastered."""

from __future__ import annotations

from robot_stack.replay.discount import DiscountSchedule
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.types.transition import EpisodeKind


class Discount:
    """The discount per tick of the next batch; what it depends on is in the replay, so a resumed run has the same.

    Args:
        replay: Has Φ of all episodes.
        most: The algorithm's own discount.
        scheduled: Whether it grows with what the policy has mastered, by Φ of the version in use.
    """

    def __init__(self, replay: Replay, most: float, *, scheduled: bool) -> None:
        self._replay = replay
        self._most = most
        self._scheduled = scheduled
        self._known: tuple[int, int] | None = None
        self._schedule: DiscountSchedule | None = None

    @property
    def mastered(self) -> int | None:
        """Return the ticks that the policy has mastered; None without a schedule, or before there is Φ."""
        self._follow()
        return None if self._schedule is None else self._schedule.mastered

    @property
    def gamma(self) -> float:
        """Return the discount; the algorithm's own where no demonstration has Φ, as without a trusted reward model."""
        self._follow()
        return self._most if self._schedule is None else self._schedule.gamma

    def _follow(self) -> None:
        """Go through all episodes again, if anything has changed about them."""
        if not self._scheduled or self._known == (changes := self._replay.changes):
            return
        self._known = changes
        demos, online = [], []
        for header, phi in self._replay.potentials():
            if header.kind is EpisodeKind.ONLINE:
                online.append(phi)
            elif header.kind is EpisodeKind.DEMO and self._replay.outcome(header.episode_id) is Outcome.SUCCESS:
                demos.append(phi)
        self._schedule = DiscountSchedule(demos, self._most) if demos else None
        if self._schedule is not None:
            for phi in online:
                self._schedule.see(phi)
