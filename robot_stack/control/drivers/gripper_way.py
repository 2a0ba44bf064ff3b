"""The way of a gripper to the opening it was sent to, which a halt ends also where it has not begun yet.

Between a goal and the first motion that is measured lie the dead time of the gripper and that of its joint states.
A HOLD may fall in between, when a hand may be between the fingers.
"""

from __future__ import annotations

CHANGED = 0.01
"""Wanted openings closer than this are the same."""
STARTS_S = 0.3
"""A gripper that has not begun to move this long after its goal stands where it is, or squeezes what it holds."""
STANDS_S = 0.2
"""A gripper stands for certain once no motion was measured for so long: one whose position is read less often than its
joint states are published seems to stand in between."""


class GripperWay:
    """The memory of when a gripper was sent somewhere, by which a halt knows whether there is a way to end."""

    def __init__(self) -> None:
        self._sent_ns: int | None = None
        self._stands_since_ns: int | None = None

    def begin(self, now_ns: int) -> None:
        """Note that the gripper was sent to another opening."""
        self._sent_ns, self._stands_since_ns = now_ns, None

    def lasts(self, opening: float | None, now_ns: int) -> bool:
        """Return whether a halt has a way to end: the gripper moves, or may begin to so soon after its goal.

        Args:
            opening: Measured while the gripper moves; None while it stands.
            now_ns: Steady clock.
        """
        if self._sent_ns is None:
            return False
        if opening is not None:
            self._stands_since_ns = None
            return True
        if self._stands_since_ns is None:
            self._stands_since_ns = now_ns
        begins = now_ns - self._sent_ns <= STARTS_S * 1e9
        if not begins and now_ns - self._stands_since_ns > STANDS_S * 1e9:
            self._sent_ns = None
        return begins

    def stop_at(self, opening: float | None, now_ns: int) -> float | None:
        """Return where a halt has to stop a gripper that takes positions: once, as soon as it is seen to move.

        Args:
            opening: Measured while the gripper moves; None while it stands.
            now_ns: Steady clock.
        """
        if not self.lasts(opening, now_ns) or opening is None:
            return None
        self._sent_ns = None
        return opening
