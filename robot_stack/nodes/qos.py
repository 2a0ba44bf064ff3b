"""The quality of service of all topics: publishers offer the most, subscribers ask for the least that they need.

What discovery tells of other nodes is read here too, for the one judge in `workcell.qos`. It is not left to rclpy's own
check, which takes an infinite deadline, as discovery tells it, for one that our publishers do not meet.
"""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo

from robot_stack.workcell.qos import Endpoint, Qos

KNOWN_RELIABLE = {ReliabilityPolicy.RELIABLE: True, ReliabilityPolicy.BEST_EFFORT: False}
KNOWN_LATCHED = {DurabilityPolicy.TRANSIENT_LOCAL: True, DurabilityPolicy.VOLATILE: False}
FOREVER_S = 1e6
"""A deadline or lease beyond this is none: each middleware writes infinity in its own way."""


def _kept(depth: int, reliability: ReliabilityPolicy) -> QoSProfile:
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability)


NEWEST = _kept(1, ReliabilityPolicy.RELIABLE)
"""Offered for commands and images: only the newest counts. Commands are also requested so."""

STATE = _kept(10, ReliabilityPolicy.RELIABLE)
"""Offered for state, which may be recorded."""

SAMPLED = _kept(1, ReliabilityPolicy.BEST_EFFORT)
"""Requested for images and state that are only looked at: fits every driver."""

SAMPLED_EACH = _kept(10, ReliabilityPolicy.BEST_EFFORT)
"""Requested of foreign input devices and joint states: fits every driver, a short press between two looks is seen, and
a sender that floods is at most ten messages ahead."""

EVERY = _kept(100, ReliabilityPolicy.RELIABLE)
"""Offered and requested where each message counts: labels and events."""

KEYS = _kept(10, ReliabilityPolicy.RELIABLE)
"""Requested for keys and stop buttons: each counts, and a sender that floods is at most ten messages ahead."""

LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""Offered and requested for what a late joiner must know."""

FIXED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Requested of static transforms, as tf2 does: a message of each publisher waits for a late joiner."""

HEARTBEAT = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    deadline=Duration(seconds=0.15),
    liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=Duration(seconds=0.3),
)
"""Offered: also shows a live process that no longer does anything."""


def qos_of(profile: QoSProfile) -> Qos:
    """Return what a profile of rclpy offers or asks for."""
    return Qos(
        reliable=KNOWN_RELIABLE.get(profile.reliability),
        latched=KNOWN_LATCHED.get(profile.durability),
        deadline_s=_seconds(profile.deadline),
        lease_s=_seconds(profile.liveliness_lease_duration),
        asserted=profile.liveliness == LivelinessPolicy.MANUAL_BY_TOPIC,
    )


def endpoint_of(info: TopicEndpointInfo) -> Endpoint:
    """Return one end of a topic out of what discovery tells of it."""
    node = f"{info.node_namespace.rstrip('/')}/{info.node_name}"
    return Endpoint(node=node, kind=info.topic_type, qos=qos_of(info.qos_profile))


def type_name(kind: type) -> str:
    """Return the name of a message type as in the graph: "std_msgs/msg/Bool"."""
    package, folder = kind.__module__.split(".")[:2]
    return f"{package}/{folder}/{kind.__name__}"


def _seconds(duration: Duration) -> float:
    """Return a duration in seconds, infinite if it is unset."""
    seconds = duration.nanoseconds / 1e9
    return seconds if 0.0 < seconds < FOREVER_S else float("inf")
