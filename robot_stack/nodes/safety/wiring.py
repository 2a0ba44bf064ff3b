"""Checks of a process's inputs in the graph: their publishers' type, quality of service, namespace and number.

A publisher that cannot be heard makes no noise; the graph knows it. Judged before arming and shown in diagnostics,
never used while driving: a killed publisher stays in the graph for 3 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rclpy.node import Node
from rclpy.qos import QoSProfile

from robot_stack.nodes.qos import endpoint_of, qos_of, type_name
from robot_stack.workcell.qos import Endpoint, fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A topic that a process listens to, with what it expects of the publishers.

    Attributes:
        topic: Without the namespace.
        asked: What the subscription asks for.
        single: Two publishers are a mistake.
        needed: None is a mistake.
    """

    topic: str
    asked: Endpoint
    single: bool = True
    needed: bool = False


def problem_of(wanted: Input, offers: Sequence[Endpoint], elsewhere: Sequence[str] = ()) -> str:
    """Return what is wrong with the publishers of one topic, or "".

    Args:
        wanted: The topic and what is asked for.
        offers: Its publishers, on the right topic.
        elsewhere: Full names of topics that end alike in other namespaces; only looked at where nobody offers.
    """
    topic, asked = wanted.topic, wanted.asked
    for offer in offers:
        if offer.kind != asked.kind:
            return f"{topic} from {offer.node} is {offer.kind}, must be {asked.kind}; correct its publisher"
        if not fits(offer.qos, asked.qos):
            return (
                f"{topic} from {offer.node} is offered {offer.qos}, must be {asked.qos} as {asked.node} asks; "
                "correct its publisher"
            )
    nodes = sorted(offer.node for offer in offers)
    if wanted.single and len(nodes) > 1:
        return f"{topic} has {len(nodes)} publishers ({', '.join(nodes)}), must have one; stop the others"
    if wanted.needed and not nodes:
        there = f"there is {', '.join(elsewhere)}; start all with one namespace" if elsewhere else "start its process"
        return f"{topic} has no publisher, must have one; {there}"
    return ""


def problem_of_node(node: Node, wanted: Input) -> str:
    """Return what is wrong with an input of a node, by what the graph says now, or ""."""
    offers = [endpoint_of(info) for info in node.get_publishers_info_by_topic(wanted.topic)]
    ours, elsewhere = node.resolve_topic_name(wanted.topic), []
    if not offers and wanted.needed:
        names = (name for name, _ in node.get_topic_names_and_types())
        elsewhere = sorted(name for name in names if name.endswith(f"/{wanted.topic}") and name != ours)
    return problem_of(wanted, offers, elsewhere)


def asks(node: Node, message: type, profile: QoSProfile) -> Endpoint:
    """Return the end of a topic that a subscription of a node asks for."""
    return Endpoint(node=node.get_fully_qualified_name(), kind=type_name(message), qos=qos_of(profile))
