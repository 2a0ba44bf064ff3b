"""One publisher a topic, for senders that do not name themselves: two would take turns at the arm, each unaware.

The graph is read, since the events executor of rclpy 7.1.6 ends with a SystemError where a callback asks for a
message's info, in which each publisher counts its own. It is not asked for their number, which it gives of the name
before remapping. One that was killed stays in the graph for three seconds if it had the DDS profile of a run, as
processes of a shell with `robot-stack env` have, and else for twenty, Fast DDS's own lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from robot_stack.types.reason import Refusal, RefusalKind

LOOK_NS = 200_000_000
"""Between two looks at the graph."""


class Endpoint(Protocol):
    """A publisher, by what the graph knows of it."""

    @property
    def node_name(self) -> str:
        """Return the name of its node."""
        ...


class Graph(Protocol):
    """A node, by what it knows of others."""

    def get_publishers_info_by_topic(self, topic_name: str) -> Sequence[Endpoint]:
        """Return the publishers of a topic, of the one that it is remapped to."""
        ...

    def resolve_topic_name(self, topic: str) -> str:
        """Return the whole name of a topic."""
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
            self._looked_ns, there = now_ns, self._graph.get_publishers_info_by_topic(self._topic)
            self._refusal = self._several(there) if len(there) > 1 else None
        return self._refusal

    def _several(self, there: Sequence[Endpoint]) -> Refusal:
        text = (
            f"{self._graph.resolve_topic_name(self._topic)} has {len(there)} publishers "
            f"({', '.join(sorted(each.node_name for each in there))}), must have one; stop the others, also a "
            "recording; one that was killed is forgotten within 20 s"
        )
        return Refusal(kind=RefusalKind.SECOND_SENDER, text=text)
