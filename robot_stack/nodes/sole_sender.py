"""One publisher a topic, for senders that do not name themselves: two would take turns at the arm, each unaware.

The graph is read, since the events executor of rclpy 7.1.6 ends with a SystemError where a callback asks for a
message's info, in which each publisher counts its own. One that was killed stays in the graph for three seconds.
"""

from __future__ import annotations

from typing import Protocol

from robot_stack.types.reason import Refusal, RefusalKind

LOOK_NS = 200_000_000
"""Between two looks at the graph."""


class Graph(Protocol):
    """A node, by what it knows of others."""

    def count_publishers(self, topic_name: str) -> int:
        """Return how many publishers a topic has."""
        ...


class SoleSender:
    """The judge of whether a topic has one publisher.

    Args:
        graph: The node that listens.
        topic: As it was subscribed to.
    """

    def __init__(self, graph: Graph, topic: str) -> None:
        self._graph = graph
        self._topic = topic
        self._looked_ns: int | None = None
        self._refusal: Refusal | None = None

    def refusal(self, now_ns: int) -> Refusal | None:
        """Return why nobody on the topic is believed, or None; to be asked with each message."""
        if self._looked_ns is None or now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns, count = now_ns, self._graph.count_publishers(self._topic)
            text = f"{self._topic} has {count} publishers, must have one; stop the others, also a recording"
            self._refusal = Refusal(kind=RefusalKind.SECOND_SENDER, text=text) if count > 1 else None
        return self._refusal
