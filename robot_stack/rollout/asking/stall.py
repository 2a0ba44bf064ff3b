"""The signal of progress that stalls: for how long Φ has not risen above its best."""

from __future__ import annotations

import math

from robot_stack.rollout.asking.moment import NS, Moment
from robot_stack.types.help import HelpKind

STALE_S = 1.0
"""A score of an older frame than this says nothing of now: a reward model that lags is no policy that stalls."""


class Stall:
    """Seconds since the best Φ was last bettered, counted from when the policy got the arm.

    Args:
        rise: What Φ must gain on its best to count as progress.
        period_s: Of the control loop.
    """

    kind = HelpKind.STALL

    def __init__(self, *, rise: float, period_s: float) -> None:
        self._rise = rise
        self._stale_frames = math.ceil(STALE_S / period_s)
        self.begin()

    def begin(self) -> None:
        """Forget the best Φ."""
        self._best = math.nan
        self._best_ns = 0

    def value(self, moment: Moment) -> float:
        """Return the seconds without progress; NaN without a fresh score."""
        score = moment.score
        if score is None or not math.isfinite(score.progress):
            return math.nan
        if moment.index - score.index > self._stale_frames:
            self._best_ns = moment.now_ns
            return math.nan
        if math.isnan(self._best) or score.progress >= self._best + self._rise:
            self._best, self._best_ns = score.progress, moment.now_ns
        return (moment.now_ns - self._best_ns) / NS

    def words(self, value: float) -> str:
        """Say for how long nothing has come of it."""
        return f"no progress for {value:.1f} s; see what it is stuck at"
