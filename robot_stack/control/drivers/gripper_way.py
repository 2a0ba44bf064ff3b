"""The way of a gripper to the opening it was sent to, which a halt ends also where it has not begun yet.

Between a goal and the first motion that is measured lie the dead time of the gripper and that of its joint states.
A HOLD may fall in between, when a hand may be between the fingers.
"""

from __future__ import annotations

CHANGED = 0.01
"""Wanted openings closer than this are the same."""
STARTS_S = 0.3
"""A gripper that has not begun to move this long after its goal stands where it is, or squeezes what it holds."""


class GripperWay:
    """The memory of when a gripper was sent somewhere, by which a halt knows whether there is a way to end."""

    def __init__(self) -> None:
        self._sent_ns: int | None = None

    def begin(self, now_ns: int) -> None:
        """Note that the gripper was sent to another opening."""
        self._sent_ns = now_ns

    def stop_at(self, opening: float | None, now_ns: int) -> float | None:
        """Return where a halt has to stop the gripper: once, when it moves, or when it begins to soon after its goal.

        Args:
            opening: Measured while the gripper moves; None while it stands.
            now_ns: Steady clock.
        """
        if self._sent_ns is None:
            return None
        if opening is not None or now_ns - self._sent_ns > STARTS_S * 1e9:
            self._sent_ns = None
        return opening
