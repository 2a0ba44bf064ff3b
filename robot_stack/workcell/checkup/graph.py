"""Checks of publishers and listeners: mismatched quality of service, two commanders, topics that nobody fills."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from robot_stack.types.finding import Finding
from robot_stack.workcell.bring_up import Heard, Stage
from robot_stack.workcell.checkup.finding import fail, ok, warn


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A publisher or a subscription, as discovery tells.

    Attributes:
        topic: Full name.
        node: Full name of the node it belongs to.
        kind: Message type, "sensor_msgs/msg/Image".
        publishes: True for a publisher.
        reliable: RELIABLE, else BEST_EFFORT.
        latched: TRANSIENT_LOCAL, else VOLATILE.
        deadline_s: Infinite if there is none.
    """

    topic: str
    node: str
    kind: str
    publishes: bool
    reliable: bool
    latched: bool
    deadline_s: float = float("inf")

    def qos(self) -> str:
        """Describe the quality of service in words."""
        words = ["reliable" if self.reliable else "best effort", "transient local" if self.latched else "volatile"]
        return ", ".join([*words, *([f"deadline {self.deadline_s:g} s"] if self.deadline_s < float("inf") else [])])


def judge_graph(endpoints: Sequence[Endpoint], *, commands: Collection[str], absent: Collection[str]) -> list[Finding]:
    """Judge the publishers and listeners of all topics of a cell.

    Args:
        endpoints: Every one that was discovered.
        commands: Topics on which one publisher is enough: two would fight over the arm.
        absent: Topics that need nobody who fills them.
    """
    topics = sorted({endpoint.topic for endpoint in endpoints})
    findings: list[Finding] = []
    for topic in topics:
        here = [endpoint for endpoint in endpoints if endpoint.topic == topic]
        publishers = [endpoint for endpoint in here if endpoint.publishes]
        listeners = [endpoint for endpoint in here if not endpoint.publishes]
        findings += _mismatches(topic, publishers, listeners)
        if topic in commands and len(publishers) > 1:
            findings.append(fail("publishers", f"{topic} has {_nodes(publishers)}, must have one; end the others"))
        if not publishers and topic not in absent:
            findings.append(
                warn("silence", f"{topic}: {_nodes(listeners)} listens, nobody publishes; start its source")
            )
    return findings or [ok("topics", f"{len(topics)} topics, every listener has a publisher that suits it")]


def _mismatches(topic: str, publishers: Sequence[Endpoint], listeners: Sequence[Endpoint]) -> list[Finding]:
    found = []
    for offers, wants in product(publishers, listeners):
        if offers.kind != wants.kind:
            text = f"{topic}: {offers.node} sends {offers.kind}, {wants.node} expects {wants.kind}; rename one topic"
            found.append(fail("type", text))
        elif _refused(offers, wants) and not _heard_otherwise(offers, wants, listeners):
            text = (
                f"{topic}: {offers.node} offers {offers.qos()}, {wants.node} wants {wants.qos()}; "
                "nothing arrives, set the listener's QoS to what is offered"
            )
            found.append(fail("qos", text))
    return found


def _refused(offers: Endpoint, wants: Endpoint) -> bool:
    return (
        (wants.reliable and not offers.reliable)
        or (wants.latched and not offers.latched)
        or offers.deadline_s > wants.deadline_s
    )


def _heard_otherwise(offers: Endpoint, wants: Endpoint, listeners: Iterable[Endpoint]) -> bool:
    """Return whether the listener's node hears the publisher in another subscription.

    One that asks for late messages too has two.
    """
    return any(
        other.node == wants.node and other.kind == offers.kind and not _refused(offers, other) for other in listeners
    )


def _nodes(endpoints: Iterable[Endpoint]) -> str:
    return ", ".join(sorted({endpoint.node for endpoint in endpoints}))


def judge_nodes(expected: Iterable[str], beating: Collection[str], stages: Mapping[str, Heard]) -> list[Finding]:
    """Judge every node of the cell: does it live, and is it active?"""
    findings = []
    names = list(expected)
    for name in names:
        heard = stages.get(name)
        if name not in beating:
            findings.append(fail("node", f"{name} gives no sign of life; read log/{name}.log"))
        elif heard is None or heard.stage is not Stage.ACTIVE:
            why = heard.to_text() if heard is not None else "it does not say where it is"
            findings.append(fail("node", f"{name} is not active: {why}"))
    return findings or [ok("nodes", f"{', '.join(names)}: active")]


def judge_frames(wanted: Collection[str], known: Collection[str]) -> list[Finding]:
    """Judge whether the tree of transforms has the configuration's frames; nothing to say where nobody publishes one.

    Args:
        wanted: Frames that the cell's files name.
        known: Frames that appear on /tf and /tf_static.
    """
    missing = sorted(set(wanted) - set(known)) if known else []
    if not missing:
        return []
    text = f"nobody publishes {', '.join(missing)}; start the robot_state_publisher, or correct the names in the files"
    return [warn("frames", text)]
