"""Problems of a teleop device: when each is told, and what the graph says of a topic on which nothing arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rclpy.topic_endpoint_info import TopicEndpointInfo

from robot_stack.nodes.drivers.wires import other_type
from robot_stack.nodes.qos import endpoint_of

PAUSE_NS = 1_000_000_000
"""A device that is lost is asked about, and told of, this often: a broken pose reads differently in each message."""


class ProblemTeller:
    """The choice of which problems of a device are told: each change, but only one a second while it stays lost."""

    def __init__(self) -> None:
        """Start with a device that has no problem."""
        self._told = ""
        self._told_ns = 0

    def is_due(self, problem: str, now_ns: int) -> bool:
        """Return whether a problem, or "" for its end, is told now; it is taken as told if so."""
        if problem == self._told or (problem and self._told and now_ns - self._told_ns < PAUSE_NS):
            return False
        self._told, self._told_ns = problem, now_ns
        return True


class Graph(Protocol):
    """A node, by what it knows of publishers."""

    def resolve_topic_name(self, topic: str) -> str:
        """Return the whole name of a topic."""
        ...

    def get_publishers_info_by_topic(self, topic_name: str) -> Sequence[TopicEndpointInfo]:
        """Return the publishers of a topic."""
        ...


class CarriedTypes:
    """The topics of a device that carry another type than it is read as, which no message ever says.

    Args:
        graph: The node that listens.
        kinds: Topic -> type that is subscribed to.
    """

    def __init__(self, graph: Graph, kinds: Mapping[str, type]) -> None:
        self._graph = graph
        self._kinds = {graph.resolve_topic_name(topic): kind for topic, kind in kinds.items()}
        self._looked_ns: int | None = None
        self._texts: tuple[str, ...] = ()

    def explain(self, problem: str, now_ns: int) -> str:
        """Return the problem of the device with what the graph adds to it; "" asks nothing."""
        if not problem:
            return ""
        if self._looked_ns is None or now_ns - self._looked_ns >= PAUSE_NS:
            self._looked_ns, self._texts = now_ns, self._others()
        return "; ".join((problem, *self._texts))

    def _others(self) -> tuple[str, ...]:
        texts = []
        for topic, kind in self._kinds.items():
            publishers = [endpoint_of(info) for info in self._graph.get_publishers_info_by_topic(topic)]
            fault = other_type(topic, publishers, kind) if publishers else None
            if fault is not None:
                texts.append(fault.text)
        return tuple(texts)
