"""The hand at the page that drives: what of it can be believed, and what goes on to the teleop process. Pure."""

from __future__ import annotations

from robot_stack.console.messages import Move, PageError
from robot_stack.teleop.messages import JoyPacket
from robot_stack.teleop.page import page_packet

LATEST_MS = 250.0
"""A packet that took this much longer than the fastest one is no picture of the hand any more."""
DRIFT = 500e-6
"""Milliseconds per millisecond that two clocks may part."""
RESET_MS = 2000.0
"""After a silence this long the page's clock is learnt anew."""


class PageClock:
    """Estimate of how late a page's packets are, against the fastest one so far, from the page's own stamps."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None
        self._last: tuple[float, float] = (0.0, 0.0)

    def late_ms(self, t_ms: float, now_ms: float) -> float:
        """Return how late a packet is that was stamped `t_ms` and arrived at `now_ms`, in milliseconds."""
        last_t_ms, last_ms = self._last
        if t_ms < last_t_ms or now_ms - last_ms > RESET_MS:
            self._offset_ms = None
        passed_ms, self._last = now_ms - last_ms, (t_ms, now_ms)
        offset_ms = now_ms - t_ms
        if self._offset_ms is None:
            self._offset_ms = offset_ms
        self._offset_ms = min(offset_ms, self._offset_ms + DRIFT * passed_ms)
        return offset_ms - self._offset_ms


class Hand:
    """The hand at one page: checks its moves and makes packets of them for the teleop process."""

    def __init__(self) -> None:
        self._clock = PageClock()
        self.holds = False
        """Whether its deadman is held."""

    def take(self, move: Move, now_ns: int) -> JoyPacket:
        """Return the packet to send on for a move of the hand.

        Raises:
            PageError: If it is too old to be believed, and nothing is lost by that: the arm is not in the hand.
        """
        late_ms = self._clock.late_ms(move.t_ms, now_ns / 1e6)
        late = late_ms > LATEST_MS
        if (late or not move.live) and self.holds:
            return self._gone()
        if late:
            raise PageError(
                f"page is {late_ms:.0f} ms late (limit {LATEST_MS:.0f}), network or machine is too busy; drive later"
            )
        self.holds = move.live and "deadman" in move.pressed
        return page_packet(move.axes, move.pressed if move.live else ())

    def close(self) -> JoyPacket | None:
        """Return the packet that lets go of the arm if the page drove, else None; for a page that has gone."""
        return self._gone() if self.holds else None

    def _gone(self) -> JoyPacket:
        self.holds = False
        return page_packet([0.0] * 6, (), gone=True)
