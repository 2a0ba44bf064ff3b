"""Wired stop buttons, as some nodes report them: pressed, released, or silent; each by itself."""

from __future__ import annotations

from collections.abc import Mapping

from robot_stack.types.reason import Refusal, RefusalKind

SETTLED_NS = 1_000_000_000
"""A button is released once it has not said "pressed" for this long."""


class StopInputs:
    """A record of what each wired stop button said last.

    Args:
        timeouts_s: Topic of each wired button -> silence after which the arm holds. A topic that is not among them may
            press, and must then release, but is not missed.
    """

    def __init__(self, timeouts_s: Mapping[str, float] | None = None) -> None:
        self._timeouts_s = dict(timeouts_s or {})
        self._heard_ns: dict[str, int] = {}
        self._pressed_ns: dict[str, int] = {}
        self._pressed: dict[str, bool] = {}

    def hear(self, topic: str, pressed: bool, now_ns: int) -> None:
        """Take what a button says."""
        self._heard_ns[topic], self._pressed[topic] = now_ns, pressed
        if pressed:
            self._pressed_ns[topic] = now_ns

    def held(self, now_ns: int) -> Refusal | None:
        """Say why a STOP cannot be cleared: a button that is pressed, was a moment ago, or was when it died."""
        for topic, pressed in self._pressed.items():
            recent = topic in self._pressed_ns and now_ns - self._pressed_ns[topic] <= SETTLED_NS
            if pressed or recent:
                text = f"{topic} is pressed, must be released; release the button first"
                return Refusal(kind=RefusalKind.STOP_INPUT_HELD, text=text)
        return None

    def silent(self, now_ns: int) -> Refusal | None:
        """Say which wired button cannot be relied on, because it was never heard or has gone silent."""
        for topic, timeout_s in self._timeouts_s.items():
            if topic not in self._heard_ns:
                text = f"{topic} has said nothing, must be heard before arming; start the button's node"
                return Refusal(kind=RefusalKind.STOP_INPUT_SILENT, text=text)
            silent_s = (now_ns - self._heard_ns[topic]) / 1e9
            if silent_s > timeout_s:
                text = (
                    f"{topic} is silent for {silent_s * 1e3:.0f} ms (limit {timeout_s * 1e3:.0f}); "
                    "check the button's node, resume"
                )
                return Refusal(kind=RefusalKind.STOP_INPUT_SILENT, text=text)
        return None
