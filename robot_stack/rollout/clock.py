"""Steady time."""

from __future__ import annotations

import time


class SteadyClock:
    """CLOCK_MONOTONIC of this machine; implements `types.interfaces.Clock`."""

    def now_ns(self) -> int:
        """Nanoseconds since boot."""
        return time.monotonic_ns()

    def sleep_until_ns(self, when_ns: int) -> None:
        """Sleep; returns at once if it is late."""
        left = when_ns - time.monotonic_ns()
        if left > 0:
            time.sleep(left / 1e9)
