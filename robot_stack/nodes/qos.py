"""The quality of service of all topics: publishers offer the most, subscribers ask for the least that they need."""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy


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

HEARTBEAT = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    deadline=Duration(seconds=0.15),
    liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=Duration(seconds=0.3),
)
"""Offered: also shows a live process that no longer does anything."""
