"""Which two ends of a topic hear each other."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.duration import Duration, Infinite
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from robot_stack.nodes.camera.topic_peers import fits, qos_words
from robot_stack.nodes.qos import HEARTBEAT, LATCHED, NEWEST, SAMPLED

VOLATILE = {"depth": 1, "durability": DurabilityPolicy.VOLATILE}
BEST_EFFORT = QoSProfile(reliability=ReliabilityPolicy.BEST_EFFORT, **VOLATILE)
RELIABLE = QoSProfile(reliability=ReliabilityPolicy.RELIABLE, **VOLATILE)
DISCOVERED = QoSProfile(
    reliability=ReliabilityPolicy.BEST_EFFORT, deadline=Infinite, liveliness_lease_duration=Infinite, **VOLATILE
)
FAST = QoSProfile(reliability=ReliabilityPolicy.RELIABLE, deadline=Duration(seconds=0.1), **VOLATILE)
MANUAL = QoSProfile(
    reliability=ReliabilityPolicy.BEST_EFFORT, liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=Duration(seconds=0.3), **VOLATILE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("offered", "asked", "heard"),
    [
        (BEST_EFFORT, BEST_EFFORT, True),
        (RELIABLE, BEST_EFFORT, True),
        (BEST_EFFORT, RELIABLE, False),
        (RELIABLE, LATCHED, False),
        (LATCHED, BEST_EFFORT, True),
        (NEWEST, DISCOVERED, True),
        (DISCOVERED, SAMPLED, True),
        (RELIABLE, FAST, False),
        (FAST, RELIABLE, True),
        (BEST_EFFORT, MANUAL, False),
        (HEARTBEAT, MANUAL, True),
        (HEARTBEAT, DISCOVERED, True),
    ],
)
def test_a_subscriber_hears_who_offers_at_least_what_it_asks_for(
    offered: QoSProfile, asked: QoSProfile, heard: bool
) -> None:
    assert fits(offered, asked) is heard


def test_qualities_are_said_in_the_words_of_ros() -> None:
    assert qos_words(DISCOVERED) == "BEST_EFFORT, VOLATILE"
    assert qos_words(HEARTBEAT).endswith("deadline 0.15 s, lease 0.3 s")
    assert qos_words(LATCHED) == "RELIABLE, TRANSIENT_LOCAL"
