"""Checks of publishers and listeners: mismatched quality of service, two commanders, topics that nobody fills."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from robot_stack.types.finding import Finding
from robot_stack.workcell.bring_up import Heard, Stage
from robot_stack.workcell.checkup.finding import fail, ok, warn
from robot_stack.workcell.qos import Endpoint, fits


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEnd(Endpoint):
    """One end of a topic, with the topic's full name, and whether it is a publisher's or a subscription's."""

    topic: str
    publishes: bool


def judge_graph(endpoints: Sequence[TopicEnd], *, commands: Collection[str], absent: Collection[str]) -> list[Finding]:
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


def _mismatches(topic: str, publishers: Sequence[TopicEnd], listeners: Sequence[TopicEnd]) -> list[Finding]:
    found = []
    for offers, wants in product(publishers, listeners):
        if offers.kind != wants.kind:
            text = f"{topic}: {offers.node} sends {offers.kind}, {wants.node} expects {wants.kind}; rename one topic"
            found.append(fail("type", text))
        elif not fits(offers.qos, wants.qos) and not _heard_otherwise(offers, wants, listeners):
            text = (
                f"{topic}: {offers.node} offers {offers.qos}, {wants.node} wants {wants.qos}; "
                "nothing arrives, set the listener's QoS to what is offered"
            )
            found.append(fail("qos", text))
    return found


def _heard_otherwise(offers: TopicEnd, wants: TopicEnd, listeners: Iterable[TopicEnd]) -> bool:
    """Return whether the listener's node hears the publisher in another subscription.

    One that asks for late messages too has two.
    """
    return any(
        other.node == wants.node and other.kind == offers.kind and fits(offers.qos, other.qos) for other in listeners
    )


def _nodes(endpoints: Iterable[TopicEnd]) -> str:
    return ", ".join(sorted({endpoint.node for endpoint in endpoints}))


def judge_nodes(
    expected: Iterable[str],
    beating: Collection[str],
    stages: Mapping[str, Heard],
    logs: Path,
    failures: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Judge every node of the cell: does it live, and is it active?

    Args:
        expected: Their names.
        beating: Those of which something has been heard.
        stages: What they say of themselves.
        logs: Folder of the processes' logs.
        failures: How those that have failed did so.
    """
    findings = []
    names = list(expected)
    for name in names:
        heard = stages.get(name)
        if name not in beating:
            findings += judge_silent([name], logs, failures)
        elif heard is None or heard.stage is not Stage.ACTIVE:
            why = heard.to_text() if heard is not None else "it does not say where it is"
            findings.append(fail("node", f"{name} is not active: {why}"))
    return findings or [ok("nodes", f"{', '.join(names)}: active")]


def judge_silent(names: Iterable[str], logs: Path, failures: Mapping[str, str] | None = None) -> list[Finding]:
    """Judge nodes of which nothing has been heard, by how they failed where that is known."""
    known = failures or {}
    return [fail("node", known.get(name, f"{name} gives no sign of life; read {logs}/{name}.log")) for name in names]


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
