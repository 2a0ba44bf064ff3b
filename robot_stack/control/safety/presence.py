"""The presence of an operator at the operator's page, where a run asks for one: nobody there is a HOLD."""

from __future__ import annotations

from robot_stack.types.reason import Refusal, RefusalKind

ABSENT_S = 1.0
"""The page says several times a second that somebody has it in view."""


class Presence:
    """A record of when somebody last had the operator's page in view.

    Args:
        required: Whether the run asks for it.
    """

    def __init__(self, *, required: bool) -> None:
        self._required = required
        self._heard_ns: int | None = None

    def hear(self, now_ns: int) -> None:
        """Note that somebody has the operator's page in view."""
        self._heard_ns = now_ns

    def missing(self, now_ns: int) -> Refusal | None:
        """Say why nothing may move without an operator at the page."""
        if not self._required:
            return None
        if self._heard_ns is None:
            text = "nobody has the operator's page open, must be open and in view (operator_required); open it, resume"
            return Refusal(kind=RefusalKind.OPERATOR_ABSENT, text=text)
        absent_s = (now_ns - self._heard_ns) / 1e9
        if absent_s <= ABSENT_S:
            return None
        text = (
            f"operator's page is lost or out of view for {absent_s:.1f} s (limit {ABSENT_S:g}), must be in view "
            "(operator_required); open it, resume"
        )
        return Refusal(kind=RefusalKind.OPERATOR_ABSENT, text=text)
