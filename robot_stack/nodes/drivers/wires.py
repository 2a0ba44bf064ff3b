"""Topics between the robot process and a driver, with the reason why nothing comes or goes on one.

Asked for is BEST_EFFORT, which fits every publisher; offered is RELIABLE, which fits every subscriber; one message
deep either way, so that nothing old waits in a queue. Only joint states are taken ten deep: at 500 Hz two come while a
tick is computed, and speeds that are found by differences want each. What does not fit is found by the events of the
middleware and read from the graph, and named with both sides' QoS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile

from robot_stack.control.drivers.driver_health import DriverHealth, Input
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.qos import NEWEST, SAMPLED, endpoint_of, qos_of, type_name
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.workcell.qos import Endpoint, Qos, fits

UNNAMED = "_NODE_NAME_UNKNOWN_"
"""What rmw_dds_common calls the node of an endpoint while its name has not come, or when it has gone already."""

MsgT = TypeVar("MsgT")
Take = Callable[[Any, int], Fault | None]
"""Message and its arrival on the steady clock -> why it cannot be used, or None."""


def type_called(name: str, kind: str = "msg") -> Any:
    """Import a message, service or action type by name, "package/Type", from a package that may be missing.

    Raises:
        ConfigError: If the package is not installed.
    """
    package, _, wanted = name.partition("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), wanted)
    except (ImportError, AttributeError):
        raise ConfigError(
            f"{name} is missing, must be importable for this robot file; install {package} of your ROS distribution, "
            "or set another type there"
        ) from None


class Wires:
    """The subscriptions and publishers of one driver."""

    def __init__(self, node: StackNode, health: DriverHealth) -> None:
        self.node = node
        self.health = health
        self.mismatches: dict[str, str] = {}
        """Topic -> sentence about QoS that does not fit."""
        self._takers: dict[str, list[tuple[str, Take]]] = {}
        self._kinds: dict[str, tuple[type, QoSProfile]] = {}
        self._commands: list[tuple[Publisher, type]] = []
        self._unheard: Fault | None = None
        self._rivals: Fault | None = None
        self._suspected: Fault | None = None
        """As seen at the last look; one that is seen once may be a publisher that is just going, or not named yet."""

    def listen(
        self,
        kind: type,
        topic: str,
        name: str,
        take: Take,
        *,
        timeout_s: float | None,
        qos: QoSProfile = SAMPLED,
        remedy: str = "look after the driver",
    ) -> None:
        """Subscribe to a topic and expect its messages as an input of the driver.

        Args:
            kind: Type of its messages.
            topic: Where, as in the robot file.
            name: What it is, in the plural: "joint states".
            take: Called with each message.
            timeout_s: Age at which it is stale; None for what is sent on a change only.
            qos: Asked for.
            remedy: What to do when it has gone silent.
        """
        full = self.node.resolve_topic_name(topic)
        self.health.expect(Input(name=name, topic=full, timeout_s=timeout_s, remedy=remedy))
        takers = self._takers.setdefault(full, [])
        takers.append((name, take))
        if len(takers) > 1:
            return
        self._kinds[full] = (kind, qos)

        def unfit(_: object) -> None:
            self._note_publishers(full)

        events = SubscriptionEventCallbacks(incompatible_qos=unfit)
        self.node.create_subscription(kind, topic, lambda msg: self._received(full, msg), qos, event_callbacks=events)

    def speak(self, kind: type, topic: str) -> Publisher:
        """Create a publisher of commands, on which somebody must listen."""
        full = self.node.resolve_topic_name(topic)

        def unfit(_: object) -> None:
            self._note_subscribers(full, kind)

        events = PublisherEventCallbacks(incompatible_qos=unfit)
        publisher = self.node.create_publisher(kind, topic, NEWEST, event_callbacks=events)
        self._commands.append((publisher, kind))
        self._unheard = _nobody_listens(full)
        return publisher

    def look(self, now_ns: int) -> None:
        """Read from the graph why inputs are silent, and who hears and sends commands; a few times a second."""
        for each in self.health.silent(now_ns):
            if each.topic in self._kinds:
                self.health.explain(each.name, self._why_silent(each.topic))
        for topic in [topic for topic in self.mismatches if topic in self._kinds]:
            if not self._note_publishers(topic):
                del self.mismatches[topic]
        self._unheard = next((why for each in self._commands if (why := self._why_unheard(*each))), None)
        rivals = next((why for publisher, _ in self._commands if (why := self._rivals_of(publisher))), None)
        self._rivals = rivals if rivals == self._suspected else None
        self._suspected = rivals

    def reason(self) -> Fault | None:
        """Return why commands would reach nobody, or why they are not the only ones, if so."""
        return self._rivals or self._unheard

    def _received(self, topic: str, msg: object) -> None:
        now_ns = time.monotonic_ns()
        for name, take in self._takers[topic]:
            try:
                refusal = take(msg, now_ns)
            except SpecError as error:
                text = f"message on {topic} cannot be used: {error}"
                refusal = Fault(kind=FaultKind.INPUT_INVALID, text=text)
            if refusal is not None:
                self.health.refused(name, refusal, now_ns)
            else:
                self.health.heard(name, now_ns)

    def _why_silent(self, topic: str) -> Fault | None:
        kind, _ = self._kinds[topic]
        others = self._publishers(topic)
        if not others:
            text = f"nobody publishes {topic}; start the driver or correct the topic"
            return Fault(kind=FaultKind.INPUT_MISSING, text=text)
        return other_type(topic, others, kind) or self._note_publishers(topic)

    def _why_unheard(self, publisher: Publisher, kind: type) -> Fault | None:
        topic = publisher.topic_name
        if topic in self.mismatches and not self._note_subscribers(topic, kind):
            del self.mismatches[topic]
        if publisher.get_subscription_count() > 0:
            return None
        others = self._subscribers(topic)
        if not others:
            return _nobody_listens(topic)
        return other_type(topic, others, kind) or self._note_subscribers(topic, kind)

    def _rivals_of(self, publisher: Publisher) -> Fault | None:
        """Return that somebody else could command the driver past the safety process, silent or not, if so."""
        topic, own = publisher.topic_name, self.node.get_fully_qualified_name()
        names = sorted(each.node for each in self._publishers(topic) if each.node.rpartition("/")[2] != UNNAMED)
        if own in names:
            names.remove(own)
        if not names:
            return None
        text = (
            f"{', '.join(names)} publishes commands on {topic} too, must be {own} alone; end it, or leave it out of "
            "what starts the driver"
        )
        return Fault(kind=FaultKind.SECOND_SENDER, text=text)

    def _publishers(self, topic: str) -> list[Endpoint]:
        return [endpoint_of(info) for info in self.node.get_publishers_info_by_topic(topic)]

    def _subscribers(self, topic: str) -> list[Endpoint]:
        return [endpoint_of(info) for info in self.node.get_subscriptions_info_by_topic(topic)]

    def _note_publishers(self, topic: str) -> Fault | None:
        kind, profile = self._kinds[topic]
        asked = qos_of(profile)
        for other in self._publishers(topic):
            if other.kind == type_name(kind) and not fits(other.qos, asked):
                return self._note(topic, offered=other.qos, asked=asked, node=other.node)
        return None

    def _note_subscribers(self, topic: str, kind: type) -> Fault | None:
        offered = qos_of(NEWEST)
        for other in self._subscribers(topic):
            if other.kind == type_name(kind) and not fits(offered, other.qos):
                return self._note(topic, offered=offered, asked=other.qos, node=other.node)
        return None

    def _note(self, topic: str, *, offered: Qos, asked: Qos, node: str) -> Fault:
        self.mismatches[topic] = (
            f"{topic} is offered as {offered} and asked for as {asked}, which do not fit; change the QoS of {node}"
        )
        return Fault(kind=FaultKind.CONTRADICTION, text=self.mismatches[topic])


def other_type(topic: str, others: list[Endpoint], kind: type) -> Fault | None:
    """Return why publishers or subscribers of a topic are of no use: none of them has the type; or None."""
    theirs = {other.kind for other in others}
    if type_name(kind) in theirs:
        return None
    text = f"{topic} carries {', '.join(sorted(theirs))}, must be {type_name(kind)}; correct the topic or its type"
    return Fault(kind=FaultKind.CONTRADICTION, text=text)


def _nobody_listens(topic: str) -> Fault:
    text = f"nobody listens on {topic}; start its controller or correct the topic"
    return Fault(kind=FaultKind.COMMAND_UNHEARD, text=text)
