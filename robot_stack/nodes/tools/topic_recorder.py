"""A recorder of the live topics of a cell as they are on the wire, for `robot-stack bag`. It publishes nothing.

Topics come and go: the graph is looked at every second. Each is asked for as reliably as all its publishers offer it,
so that every message counts where they say so, and nobody is missed: if one comes later who offers less, the topic is
asked for anew.
"""

from __future__ import annotations

import importlib
import re
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from rclpy.task import Future

from robot_stack.datasets.bag.topic_log import Channel, TopicLog
from robot_stack.nodes.base import FOREVER_S, make_executor
from robot_stack.types.errors import StoreError
from robot_stack.workcell.ending import ending_signals

SEPARATOR = "=" * 80
IDL_NAMES = {"double": "float64", "float": "float32", "boolean": "bool", "octet": "byte"}


def message_class(kind: str) -> Any:
    """Import the class of a message type like "sensor_msgs/msg/Image".

    Raises:
        ImportError, AttributeError: If its package is not installed here, or has no such type.
    """
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def definition_of(kind: str) -> str:
    """Write a type's definition as bags have it: its fields, then those of every type in it, each once.

    Constants and defaults are left out: they are not on the wire.

    Raises:
        ImportError, AttributeError: As in `message_class`.
    """
    texts: dict[str, str] = {}
    _collect(kind, texts)
    own, *others = texts.values()
    names = [name.replace("/msg/", "/") for name in texts][1:]
    parts = [own, *(f"{SEPARATOR}\nMSG: {name}\n{text}" for name, text in zip(names, others, strict=True))]
    return "".join(parts)


def _collect(kind: str, texts: dict[str, str]) -> None:
    fields: dict[str, str] = message_class(kind).get_fields_and_field_types()
    texts[kind] = "".join(f"{in_msg_words(idl)} {name}\n" for name, idl in fields.items())
    for idl in fields.values():
        base = re.sub(r"^sequence<([^,>]+).*", r"\1", idl).split("[")[0]
        if "/" in base and (inner := "{}/msg/{}".format(*base.split("/"))) not in texts:
            _collect(inner, texts)


def in_msg_words(idl: str) -> str:
    """Write a type of IDL as a .msg file has it: "sequence<double, 3>" becomes "float64[<=3]"."""
    if match := re.fullmatch(r"sequence<(.+?)(?:, (\d+))?>", idl):
        return f"{in_msg_words(match[1])}[{f'<={match[2]}' if match[2] else ''}]"
    if match := re.fullmatch(r"(.+)\[(\d+)\]", idl):
        return f"{in_msg_words(match[1])}[{match[2]}]"
    if match := re.fullmatch(r"(w?string)<(\d+)>", idl):
        return f"{match[1]}<={match[2]}"
    return IDL_NAMES.get(idl, idl)


def offered_text(offered: Sequence[QoSProfile]) -> str:
    """Write the QoS of a topic's publishers as rosbag2 does in the metadata of a channel, with policies as numbers.

    `ros2 bag play` offers the same again. Without a record of its own in a file it reads numbers; later ones read both.

    Source: rosbag2 25304dd, rosbag2_storage/src/rosbag2_storage/qos.cpp, version 8.
    """
    return "\n".join(
        f"- history: {int(qos.history)}\n  depth: {qos.depth}\n"
        f"  reliability: {int(qos.reliability)}\n  durability: {int(qos.durability)}\n"
        f"  deadline:{_duration(qos.deadline)}\n  lifespan:{_duration(qos.lifespan)}\n"
        f"  liveliness: {int(qos.liveliness)}\n  liveliness_lease_duration:{_duration(qos.liveliness_lease_duration)}\n"
        f"  avoid_ros_namespace_conventions: {str(qos.avoid_ros_namespace_conventions).lower()}"
        for qos in offered
    )


def _duration(duration: Duration) -> str:
    seconds, rest_ns = divmod(duration.nanoseconds, 10**9)
    return f"\n    sec: {seconds}\n    nsec: {rest_ns}"


COMMON = ("/diagnostics", "/rosout", "/tf", "/tf_static")
"""Outside the namespaces of cells, and about all of them."""
LOOK_HZ = 1.0
SAY_S = 10.0
DEPTH = 100


class TopicRecorder(Node):
    """A ROS node that subscribes to a cell's topics as they appear, and writes them to a log.

    Args:
        namespace: Of the cell.
        log: Where to write.
        everything: Also what is outside the namespace, such as a driver's own images.

    Attributes:
        ended: Done when a signal came, or with the error when the disk has refused.
        skipped: Topic -> why it is not recorded.
    """

    def __init__(self, namespace: str, log: TopicLog, *, everything: bool = False) -> None:
        super().__init__("topic_recorder", namespace=namespace, start_parameter_services=False, enable_rosout=False)
        self._log = log
        self._everything = everything
        self._known: set[str] = set()
        self._asked: dict[str, tuple[Channel, Subscription]] = {}
        self.ended: Future = Future()
        self.skipped: dict[str, str] = {}
        self.create_timer(1.0 / LOOK_HZ, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._look()

    def end(self, *_: object) -> None:
        """End the recording; also serves as a handler of signals."""
        if not self.ended.done():
            self.ended.set_result(None)

    def _look(self) -> None:
        """Subscribe to new topics and to those with a publisher who offers less, and flush what has come to the log."""
        for topic, kinds in self.get_topic_names_and_types():
            if topic in self._asked:
                self._ask_for_less(topic)
            elif topic not in self._known and self._wanted(topic) and self.count_publishers(topic):
                self._known.add(topic)
                self._subscribe(topic, kinds)
        self._try(self._log.flush)

    def _wanted(self, topic: str) -> bool:
        return self._everything or topic in COMMON or topic.startswith(self.get_namespace().rstrip("/") + "/")

    def _subscribe(self, topic: str, kinds: list[str]) -> None:
        if len(kinds) > 1:
            self.skipped[topic] = f"has several types ({', '.join(kinds)}), must have one; find out who sends the other"
            return
        try:
            definition, kind = definition_of(kinds[0]), message_class(kinds[0])
        except (ImportError, AttributeError):
            self.skipped[topic] = f"type {kinds[0]} is not installed, must be; source the workspace that has it"
            return
        qos = self._fitting(topic)
        latched = qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
        offered = offered_text(self._offered(topic))
        channel = Channel(topic=topic, kind=kinds[0], definition=definition, latched=latched, offered=offered)
        self._asked[topic] = channel, self._listen(kind, channel, qos)

    def _listen(self, kind: type[Any], channel: Channel, qos: QoSProfile) -> Subscription:
        return self.create_subscription(kind, channel.topic, partial(self._write, channel), qos, raw=True)

    def _ask_for_less(self, topic: str) -> None:
        """Ask for a topic anew where a publisher has come who would not be heard.

        Whoever was heard goes on to be; what was latched and has come already is not asked for again.
        """
        channel, before = self._asked[topic]
        fitting, asked = self._fitting(topic), before.qos_profile
        deaf = asked.reliability == ReliabilityPolicy.RELIABLE != fitting.reliability
        if deaf or asked.durability == DurabilityPolicy.TRANSIENT_LOCAL != fitting.durability:
            self._asked[topic] = channel, self._listen(message_class(channel.kind), channel, fitting)
            self.destroy_subscription(before)

    def _fitting(self, topic: str) -> QoSProfile:
        """Return the most in QoS that every publisher of a topic offers."""
        offered = self._offered(topic)
        reliable = all(qos.reliability == ReliabilityPolicy.RELIABLE for qos in offered)
        kept = all(qos.durability == DurabilityPolicy.TRANSIENT_LOCAL for qos in offered)
        return QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
        )

    def _offered(self, topic: str) -> list[QoSProfile]:
        return [info.qos_profile for info in self.get_publishers_info_by_topic(topic)]

    def _write(self, channel: Channel, data: bytes) -> None:
        """Log a topic's message by its arrival.

        Its own time and number are left out: the events executor cannot hand them over (rclpy 7.1).
        """
        self._try(lambda: self._log.add(channel, data, time.time_ns()))

    def _try(self, write: Callable[[], None]) -> None:
        if self.ended.done():
            return
        try:
            write()
        except StoreError as error:
            self.ended.set_result(error)


def record_topics(
    namespace: str, log: TopicLog, *, everything: bool = False, seconds: float = FOREVER_S, say: Callable[[str], None]
) -> dict[str, str]:
    """Record a cell's topics in the environment of this process until one of `ending_signals` or the time is up.

    Args:
        namespace: Of the cell.
        log: Where to write; closed at the end.
        everything: Also what is outside the namespace.
        seconds: At most so long.
        say: Progress.

    Returns:
        Topic -> why it is not recorded.

    Raises:
        StoreError: If the disk refuses; what was flushed stays.
    """
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = TopicRecorder(namespace, log, everything=everything)
    before = [(number, signal.signal(number, node.end)) for number in ending_signals()]
    try:
        node.create_timer(SAY_S, lambda: say(f"{log.counts.total()} messages of {len(log.counts)} topics"))
        make_executor(node).spin_until_future_complete(node.ended, seconds)
        if isinstance(error := node.ended.result(), StoreError):
            raise error
        log.close()
        return node.skipped
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        node.destroy_node()
        rclpy.try_shutdown()
