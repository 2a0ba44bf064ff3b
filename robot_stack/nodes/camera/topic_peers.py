"""The peers at the other end of a topic, and in words why nothing passes between the two ends."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from robot_stack.nodes.qos import endpoint_of, qos_of
from robot_stack.workcell.qos import fits


def why_silent(node: Node, subscription: Subscription, type_name: str) -> str:
    """Return why a subscription gets nothing, as far as discovery tells.

    Args:
        node: The subscription's.
        subscription: What is silent.
        type_name: Of its messages, e.g. "sensor_msgs/msg/Image".
    """
    topic, asked = subscription.topic_name, qos_of(subscription.qos_profile)
    peers = [endpoint_of(info) for info in node.get_publishers_info_by_topic(topic)]
    if not peers:
        return f"nobody publishes {topic}; start its driver on this DDS domain, and compare the names"
    others = sorted({peer.kind for peer in peers if peer.kind != type_name})
    if others:
        return f"{topic} carries {', '.join(others)}, must carry {type_name}; see `compressed` and `source_topic`"
    for peer in peers:
        if not fits(peer.qos, asked):
            return (
                f"QoS of {topic} does not match: {peer.node} offers {peer.qos}, asked for is {asked}; set "
                "`reliable: false`, or the driver's QoS"
            )
    return f"{peers[0].node} publishes {topic} ({peers[0].qos}), but nothing comes; is it stuck?"


def deaf_subscribers(node: Node, publisher: Publisher) -> str:
    """Return a sentence about a subscriber that asks for more than our publisher offers; "" if none does."""
    offered = qos_of(publisher.qos_profile)
    for peer in map(endpoint_of, node.get_subscriptions_info_by_topic(publisher.topic_name)):
        if not fits(offered, peer.qos):
            return (
                f"QoS of {publisher.topic_name} does not match: {peer.node} asks for {peer.qos}, offered is {offered}; "
                "change the subscriber's QoS"
            )
    return ""
