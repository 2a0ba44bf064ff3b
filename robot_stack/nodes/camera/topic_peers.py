"""The peers at the other end of a topic, and in words why nothing passes between the two ends."""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.topic_endpoint_info import TopicEndpointInfo


def qos_words(qos: QoSProfile) -> str:
    """Name the QoS that two ends must agree about, e.g. "BEST_EFFORT, VOLATILE"."""
    words = [qos.reliability.name, qos.durability.name]
    for name, duration in (("deadline", qos.deadline), ("lease", qos.liveliness_lease_duration)):
        if _seconds(duration) < float("inf"):
            words.append(f"{name} {_seconds(duration):g} s")
    return ", ".join(words)


def fits(offered: QoSProfile, asked: QoSProfile) -> bool:
    """Return whether a subscriber that asks for one QoS hears a publisher that offers the other.

    rclpy's own check takes an unset deadline for one of zero seconds where the other end says "infinite", as discovery
    does, and so finds fault with every subscriber.
    """
    return not (
        (asked.reliability == ReliabilityPolicy.RELIABLE and offered.reliability == ReliabilityPolicy.BEST_EFFORT)
        or (asked.durability == DurabilityPolicy.TRANSIENT_LOCAL and offered.durability == DurabilityPolicy.VOLATILE)
        or _seconds(asked.deadline) < _seconds(offered.deadline)
        or _seconds(asked.liveliness_lease_duration) < _seconds(offered.liveliness_lease_duration)
        or (
            asked.liveliness == LivelinessPolicy.MANUAL_BY_TOPIC
            and offered.liveliness != LivelinessPolicy.MANUAL_BY_TOPIC
        )
    )


def why_silent(node: Node, subscription: Subscription, type_name: str) -> str:
    """Return why a subscription gets nothing, as far as discovery tells.

    Args:
        node: The subscription's.
        subscription: What is silent.
        type_name: Of its messages, e.g. "sensor_msgs/msg/Image".
    """
    topic = subscription.topic_name
    peers = node.get_publishers_info_by_topic(topic)
    if not peers:
        return f"nobody publishes {topic}; start its driver on this DDS domain, and compare the names"
    others = sorted({peer.topic_type for peer in peers if peer.topic_type != type_name})
    if others:
        return f"{topic} carries {', '.join(others)}, must carry {type_name}; see `compressed` and `source_topic`"
    for peer in peers:
        qos = subscription.qos_profile
        if not fits(peer.qos_profile, qos):
            return (
                f"QoS of {topic} does not match: {_who(peer)} offers {qos_words(peer.qos_profile)}, asked for is "
                f"{qos_words(qos)}; set `reliable: false`, or the driver's QoS"
            )
    return f"{_who(peers[0])} publishes {topic} ({qos_words(peers[0].qos_profile)}), but nothing comes; is it stuck?"


def deaf_subscribers(node: Node, publisher: Publisher) -> str:
    """Return a sentence about a subscriber that asks for more than our publisher offers; "" if none does."""
    for peer in node.get_subscriptions_info_by_topic(publisher.topic_name):
        if not fits(publisher.qos_profile, peer.qos_profile):
            return (
                f"QoS of {publisher.topic_name} does not match: {_who(peer)} asks for {qos_words(peer.qos_profile)}, "
                f"offered is {qos_words(publisher.qos_profile)}; change the subscriber's QoS"
            )
    return ""


def _who(peer: TopicEndpointInfo) -> str:
    return f"{peer.node_namespace.rstrip('/')}/{peer.node_name}"


def _seconds(duration: Duration) -> float:
    """Return a duration in seconds, infinite if it is unset."""
    return duration.nanoseconds / 1e9 if 0 < duration.nanoseconds < 2**62 else float("inf")
