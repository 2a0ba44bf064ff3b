"""One sender per stream of commands: a second one is refused, and said.

A sender names itself with every message by its session, a word made anew at each start of its process. The first one
heard has the stream until it has been silent for a second; so a restarted process takes over from its dead self, and
two living ones never mix.
"""

from __future__ import annotations

RELEASE_NS = 1_000_000_000


class Senders:
    """Who sends on each topic."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, int]] = {}
        self._rivals: dict[str, tuple[str, int]] = {}

    def refusal(self, topic: str, session: str, now_ns: int) -> str:
        """A message of that session arrived; returns why it is refused, or ""."""
        owner, heard_ns = self._owners.get(topic, (session, now_ns))
        if owner == session or now_ns - heard_ns > RELEASE_NS:
            self._owners[topic] = (session, now_ns)
            return ""
        self._rivals[topic] = (session, now_ns)
        return _two(topic, owner, session)

    def contested(self, now_ns: int) -> str:
        """A sentence about a topic that two sent on within the last second, or ""."""
        for topic, (rival, heard_ns) in self._rivals.items():
            owner, owner_ns = self._owners[topic]
            if rival != owner and now_ns - heard_ns <= RELEASE_NS and now_ns - owner_ns <= RELEASE_NS:
                return _two(topic, owner, rival)
        return ""


def _two(topic: str, owner: str, rival: str) -> str:
    return f"{topic} has two senders, {owner or 'unnamed'} and {rival or 'unnamed'}, must have one; stop one"
