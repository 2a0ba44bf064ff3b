"""What is read of the quality of service of rclpy and of discovery."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.duration import Duration, Infinite
from rclpy.qos import (
    DurabilityPolicy,
    LivelinessPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from std_msgs.msg import Bool

from robot_stack.nodes.qos import HEARTBEAT, LATCHED, NEWEST, SAMPLED, qos_of, type_name
from robot_stack.workcell.qos import Qos, fits

RELIABLE = ReliabilityPolicy.RELIABLE
VOLATILE = {"depth": 1, "durability": DurabilityPolicy.VOLATILE}
DISCOVERED = QoSProfile(
    reliability=ReliabilityPolicy.BEST_EFFORT, deadline=Infinite, liveliness_lease_duration=Infinite, **VOLATILE
)
UNKNOWN = QoSProfile(depth=1, reliability=ReliabilityPolicy.UNKNOWN, durability=DurabilityPolicy.UNKNOWN)
MANUAL = QoSProfile(
    reliability=ReliabilityPolicy.BEST_EFFORT, liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=Duration(seconds=0.3), **VOLATILE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "qos"),
    [
        (DISCOVERED, Qos(reliable=False, latched=False)),
        (NEWEST, Qos(reliable=True, latched=False)),
        (LATCHED, Qos(reliable=True, latched=True)),
        (UNKNOWN, Qos(reliable=None, latched=None)),
        (MANUAL, Qos(reliable=False, latched=False, lease_s=0.3, asserted=True)),
        (HEARTBEAT, Qos(reliable=True, latched=False, deadline_s=0.15, lease_s=0.3, asserted=True)),
    ],
)
def test_a_profile_is_read_whole(profile: QoSProfile, qos: Qos) -> None:
    assert qos_of(profile) == qos


@pytest.mark.parametrize("forever", [Infinite, Duration(seconds=2**31 - 1)])
def test_an_infinite_deadline_as_discovery_writes_it_is_met_by_who_sets_none(forever: Duration) -> None:
    asked = QoSProfile(reliability=RELIABLE, deadline=forever, liveliness_lease_duration=forever, **VOLATILE)
    assert qos_check_compatible(NEWEST, asked)[0] == QoSCompatibility.ERROR  # why it is not asked
    assert fits(qos_of(NEWEST), qos_of(asked))
    assert fits(qos_of(asked), qos_of(SAMPLED))


def test_a_type_is_named_as_in_the_graph() -> None:
    assert type_name(Bool) == "std_msgs/msg/Bool"
