"""The steady clock of this machine."""

from __future__ import annotations

import time


class SteadyClock:
    """A clock on CLOCK_MONOTONIC of this machine; implements `types.interfaces.Clock`."""

    def now_ns(self) -> int:
        """Return the time since boot, in nanoseconds."""
        return time.monotonic_ns()

    def sleep_until_ns(self, when_ns: int) -> None:
        """Sleep until the clock reads `when_ns`; returns at once if that has passed."""
        left = when_ns - time.monotonic_ns()
        if left > 0:
            time.sleep(left / 1e9)
