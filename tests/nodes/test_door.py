"""What a stranger's bytes do to a process of the safety path: they are counted, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import Joy

from robot_stack.nodes.door import GuardedTopic
from robot_stack.nodes.qos import KEYS
from robot_stack.types.reason import Refusal, RefusalKind


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\1\0\0" + b"\xff" * 40])
def test_bytes_that_are_no_message_are_refused_and_the_next_message_is_taken(raw: bytes):
    taken: list[Joy] = []
    refused: list[Refusal] = []
    node = SimpleNamespace(create_subscription=lambda *_, **__: object())
    topic = GuardedTopic(node, Joy, "teleop/events", taken.append, KEYS, refused.append)  # type: ignore[arg-type]
    topic._receive(raw)
    assert [each.kind for each in refused] == [RefusalKind.MALFORMED]
    topic._receive(serialize_message(Joy()))
    assert len(taken) == 1
