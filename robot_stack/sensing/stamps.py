"""The translation of stamps of foreign clocks to the monotonic clock of this machine.

Drivers stamp images with a clock that is not ours. Which one it is, the camera's file says (`stamps`); nothing is
guessed, because a clock that is behind and an image that is late look the same from here.

wall      The driver uses the wall clock of this host, or one synchronised with it. Both clocks are read as each image
          arrives, so that a step of the wall clock moves nothing but images under way at that instant, which are
          refused. True latencies are seen.
own       Any other clock (of the device, of a host that is not synchronised). Its offset is the smallest difference
          from arrival to stamp so far, let rise by `DRIFT`, faster than any two quartz clocks part. Ages are then those
          above the fastest image: a latency that is always there is not seen, one that comes up later is.
arrival   Stamps are not used. An image is as old as it was sent; one that was late before that is not noticed.
"""

from __future__ import annotations

from typing import Protocol

DRIFT = 200e-6
"""Seconds per second."""
JUMP_NS = 50_000_000
"""A stamp this much earlier or later than the clock allows is refused, or a sign that the clock was set anew."""
PROOF = 5
"""So many of them in a row are the sign."""
SILENCE_NS = 2_000_000_000
"""After a pause this long the driver may have been started anew: its clock is learnt again."""


class StampClock(Protocol):
    """A translator of the stamps of one source to the monotonic clock."""

    def to_monotonic(self, stamp_ns: int, arrival_ns: int, wall_ns: int) -> int:
        """Return the stamp on the monotonic clock; 0 or less if it is not set.

        Args:
            stamp_ns: As the driver wrote it.
            arrival_ns: Monotonic time of arrival.
            wall_ns: Wall time of the same instant.
        """
        ...


class WallStamps:
    """A translator of stamps of this host's wall clock."""

    def to_monotonic(self, stamp_ns: int, arrival_ns: int, wall_ns: int) -> int:
        """Return the stamp moved by the difference of both clocks at its arrival; 0 if it is not set."""
        return stamp_ns + arrival_ns - wall_ns if stamp_ns > 0 else 0


class ArrivalStamps:
    """A translator that uses the arrival in place of the stamp."""

    def to_monotonic(self, stamp_ns: int, arrival_ns: int, wall_ns: int) -> int:
        """Return the time of arrival, whatever the stamp is."""
        return arrival_ns


class OwnStamps:
    """A translator of stamps of a clock that ticks like ours and shows another time."""

    def __init__(self) -> None:
        self._offset_ns: float | None = None
        self._arrival_ns = 0
        self._newest_ns = 0
        self._odd = 0

    def to_monotonic(self, stamp_ns: int, arrival_ns: int, wall_ns: int) -> int:
        """Return the stamp moved by the estimated offset of its clock; 0 if it is not set.

        A stamp that has jumped is translated with the old offset, until the jump is proven.

        Images that are late only come later. Stamps that are earlier than the fastest image allows, or that go back,
        mean that the clock was set.
        """
        if stamp_ns <= 0:
            return 0
        gap_ns, self._arrival_ns = arrival_ns - self._arrival_ns, arrival_ns
        measured_ns = arrival_ns - stamp_ns
        if self._offset_ns is None or gap_ns > SILENCE_NS:
            return self._learn(stamp_ns, measured_ns)
        self._offset_ns += DRIFT * gap_ns
        if measured_ns < self._offset_ns - JUMP_NS or stamp_ns < self._newest_ns - JUMP_NS:
            self._odd += 1
            if self._odd >= PROOF:
                return self._learn(stamp_ns, measured_ns)
        else:
            self._odd = 0
            self._offset_ns = min(self._offset_ns, measured_ns)
            self._newest_ns = max(self._newest_ns, stamp_ns)
        return stamp_ns + round(self._offset_ns)

    def _learn(self, stamp_ns: int, measured_ns: int) -> int:
        self._offset_ns, self._newest_ns, self._odd = float(measured_ns), stamp_ns, 0
        return stamp_ns + measured_ns


def stamp_clock(kind: str) -> StampClock:
    """Build a fresh translator of stamps, by its name in a camera's file."""
    clocks: dict[str, type[StampClock]] = {"wall": WallStamps, "own": OwnStamps, "arrival": ArrivalStamps}
    return clocks[kind]()
