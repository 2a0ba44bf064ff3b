"""Guards of what the cell hears: one sender has each stream, stop buttons are heard, an operator is at the page.

A sender of this run names itself with every message by its session, made anew at each start of its process, and seals
it (`control.safety.seal`). The first one heard has the stream until it has been silent for a second; so a restarted
process takes over from its dead self, and two living ones never mix. A message whose seal does not fit is a
stranger's: it never has the stream, however long that has been silent.
"""

from __future__ import annotations

from collections.abc import Mapping

from robot_stack.types.reason import Refusal, RefusalKind

SETTLED_NS = 1_000_000_000
"""A button that was pressed is released once it has said so for this long."""


class StopInputs:
    """A record of what each wired stop button said last.

    Args:
        timeouts_s: Topic of each wired button -> silence after which the arm holds. A topic that is not among them may
            press, and must then release, but is not missed.
    """

    def __init__(self, timeouts_s: Mapping[str, float] | None = None) -> None:
        self._timeouts_s = dict(timeouts_s or {})
        self._heard_ns: dict[str, int] = {}
        self._released_ns: dict[str, int] = {}
        self._pressed: dict[str, bool] = {}

    def hear(self, topic: str, pressed: bool, now_ns: int) -> None:
        """Take what a button says."""
        if self._pressed.get(topic, False) and not pressed:
            self._released_ns[topic] = now_ns
        self._heard_ns[topic], self._pressed[topic] = now_ns, pressed

    def held(self, now_ns: int) -> Refusal | None:
        """Say why a STOP cannot be cleared: a button that is pressed, was a moment ago, or was when it died."""
        for topic, pressed in self._pressed.items():
            recent = topic in self._released_ns and now_ns - self._released_ns[topic] <= SETTLED_NS
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


ABSENT_S = 1.0
"""The page says several times a second that somebody has it in view."""


class Presence:
    """A record of when somebody last had the operator's page in view."""

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


RELEASE_NS = 1_000_000_000
STRANGER = "a stranger"
"""Who sends what carries no seal of this run."""


class PublisherGuard:
    """A record of who sends on each topic, and who else tried."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, int]] = {}
        self._rivals: dict[str, tuple[str, int]] = {}

    def refusal(self, topic: str, session: str | None, now_ns: int) -> Refusal | None:
        """Judge a message by its sender; return why it is refused, or None.

        Args:
            topic: It came on.
            session: Of its sender; None for a stranger's.
            now_ns: Steady clock.
        """
        if session is None:
            self._rivals[topic] = (STRANGER, now_ns)
            return _foreign(topic)
        owner, heard_ns = self._owners.get(topic, (session, now_ns))
        if owner == session or now_ns - heard_ns > RELEASE_NS:
            self._owners[topic] = (session, now_ns)
            return None
        self._rivals[topic] = (session, now_ns)
        return _two(topic, owner, session)

    def contested(self, now_ns: int) -> Refusal | None:
        """Name a topic on which two senders, or a stranger, sent within the last second."""
        for topic, (rival, heard_ns) in self._rivals.items():
            if now_ns - heard_ns > RELEASE_NS:
                continue
            if rival == STRANGER:
                return _foreign(topic)
            owner, owner_ns = self._owners[topic]
            if rival != owner and now_ns - owner_ns <= RELEASE_NS:
                return _two(topic, owner, rival)
        return None


def _foreign(topic: str) -> Refusal:
    text = f"{topic} has a sender that is no process of this run, must have one of this run only; stop the other"
    return Refusal(kind=RefusalKind.FOREIGN, text=text)


def _two(topic: str, owner: str, rival: str) -> Refusal:
    text = f"{topic} has two senders, {owner or 'unnamed'} and {rival or 'unnamed'}, must have one; stop one"
    return Refusal(kind=RefusalKind.SECOND_SENDER, text=text)
