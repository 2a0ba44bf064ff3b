"""The wired emergency stop, as some node reports it: pressed, released, or silent."""

from __future__ import annotations

SETTLED_NS = 1_000_000_000
"""Several buttons may share the topic; all are released once none has said "pressed" for this long."""


class StopInput:
    """Remembers what was said.

    Args:
        timeout_s: Silence after which the arm holds; None where no button is wired.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._heard_ns: int | None = None
        self._pressed_ns: int | None = None
        self._pressed = False

    def hear(self, pressed: bool, now_ns: int) -> None:
        """A button said so."""
        self._heard_ns, self._pressed = now_ns, pressed
        if pressed:
            self._pressed_ns = now_ns

    def held(self, now_ns: int) -> str:
        """Why a STOP cannot be cleared, or ""."""
        recent = self._pressed_ns is not None and now_ns - self._pressed_ns <= SETTLED_NS
        held = self._pressed or recent
        return "safety/stop_input is pressed, must be released; release the button first" if held else ""

    def silent(self, now_ns: int) -> str:
        """Why the wired button cannot be relied on, or ""."""
        if self._timeout_s is None:
            return ""
        if self._heard_ns is None:
            return "safety/stop_input has said nothing, must be heard before arming; start the button's node"
        silent_s = (now_ns - self._heard_ns) / 1e9
        if silent_s <= self._timeout_s:
            return ""
        return (
            f"safety/stop_input is silent for {silent_s * 1e3:.0f} ms (limit {self._timeout_s * 1e3:.0f}); "
            "check the button's node, resume"
        )
