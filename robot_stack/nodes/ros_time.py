"""Translates between this machine's steady clock, in which the project counts, and ROS time, which stands in messages.

Inside a process every stamp and age is one of CLOCK_MONOTONIC, which nothing can set. On the wire `header.stamp` is ROS
time, this machine's wall clock, since that is what tf2, message_filters, RViz, `ros2 topic delay` and bags expect. Each
process measures how far the two clocks are apart and translates with that difference; it measures again as soon as they
differ by 2 ms more or less, after a step of the wall clock or a few minutes of slewing.

So an age survives a step: sender and receiver change over within one message of each other, and only messages that are
under way at that instant look too old or too new and are refused, which a watchdog of several periods outlives. Two
processes of one machine disagree by 2 ms at most. Stamps of another machine are not translated but judged by arrival.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def asleep_ns() -> int:
    """Return how long this machine has been suspended since it was started: CLOCK_MONOTONIC stands still then.

    A pause between the two readings makes it smaller, never larger.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


STEP_NS = 2_000_000
"""Clocks that have moved against each other by this much have been set, or slewed for long."""
LOOKS = 5
"""Readings of both clocks, of which the quickest counts: a process may be interrupted between two."""


class ClockOffset:
    """The difference between the wall clock and the steady clock, measured anew when it has changed."""

    def __init__(self, steady: Callable[[], int] = time.monotonic_ns, wall: Callable[[], int] = time.time_ns) -> None:
        self._steady = steady
        self._wall = wall
        self._offset_ns = self._measured()

    def now_ns(self) -> int:
        """Return what is to be added to a time of the steady clock to make it ROS time, in ns."""
        steady_ns = self._steady()
        if abs(self._wall() - steady_ns - self._offset_ns) > STEP_NS:
            measured = self._measured()
            if abs(measured - self._offset_ns) > STEP_NS:
                self._offset_ns = measured
        return self._offset_ns

    def _measured(self) -> int:
        looks = [(self._steady(), self._wall(), self._steady()) for _ in range(LOOKS)]
        before_ns, wall_ns, after_ns = min(looks, key=lambda look: look[2] - look[0])
        return wall_ns - (before_ns + after_ns) // 2


OFFSET = ClockOffset()
"""Of this process."""
