"""A guard that lets one sender have each stream: a second one is refused and reported.

A sender of this run names itself with every message by its session, made anew at each start of its process, and seals
it (`control.safety.seal`). The first one heard has the stream until it has been silent for a second; so a restarted
process takes over from its dead self, and two living ones never mix. A message whose seal does not fit is a
stranger's: it never has the stream, however long that has been silent.
"""

from __future__ import annotations

from robot_stack.types.reason import Refusal, RefusalKind

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
