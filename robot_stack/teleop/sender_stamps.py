"""The stamps of a foreign sender, by which a recording that is played again is told from a device that speaks now.

Most senders stamp by the wall clock, and such a stamp must be of now. Some count from their own start, as a headset's
app does, and some do not stamp at all: those cannot be told from their own recording, but two of them that speak in
turn can.
"""

from __future__ import annotations

from robot_stack.types.reason import Refusal, RefusalKind

LARGEST_AGE_NS = 1_000_000_000
"""Hosts whose clocks are further apart are not synchronised."""
WALL_CLOCK_NS = 10**18
"""Of September 2001: whoever has a larger stamp has the wall clock's."""


class SenderStamps:
    """The judge of what one topic of a foreign sender brings.

    Args:
        own: Whether stamps that look like the wall clock's are of another host's, which nobody can set.
    """

    def __init__(self, *, own: bool = False) -> None:
        self._own = own
        self._ahead_ns: int | None = None

    def refusal(self, stamp_ns: int, now_ns: int, ros_ns: int) -> Refusal | None:
        """Return why a message is not of now, or None.

        Args:
            stamp_ns: As it stands in the message, 0 for none.
            now_ns: Steady clock, which no step of a wall clock moves against the sender's own.
            ros_ns: ROS time.
        """
        if stamp_ns >= WALL_CLOCK_NS and not self._own:
            return _not_of_now(ros_ns - stamp_ns)
        if stamp_ns == 0:
            return None
        before, self._ahead_ns = self._ahead_ns, stamp_ns - now_ns
        if before is None or abs(self._ahead_ns - before) <= LARGEST_AGE_NS:
            return None
        text = (
            f"clock of the sender has moved by {(self._ahead_ns - before) / 1e9:.1f} s, must be one clock; has it "
            "started again, or are there two?"
        )
        return Refusal(kind=RefusalKind.CLOCK, text=text)


def _not_of_now(late_ns: int) -> Refusal | None:
    if abs(late_ns) <= LARGEST_AGE_NS:
        return None
    kind, way = (RefusalKind.STALE, "old") if late_ns > 0 else (RefusalKind.FUTURE, "ahead")
    text = (
        f"message is {abs(late_ns) / 1e9:.1f} s {way}, must be at most {LARGEST_AGE_NS / 1e9:g} s; stop the "
        "recording that is played, or synchronise the hosts"
    )
    return Refusal(kind=kind, text=text)
