"""What a stranger's bytes do to a process of the safety path: they are counted, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from pydantic import BaseModel
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Joy

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.teleop import TeleopConfig
from robot_stack.control.safety.admission import Doorkeeper
from robot_stack.nodes.door import MOST_HZ, GuardedTopic
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


@pytest.mark.parametrize("section", [SafetyConfig, DriverRobot, TeleopConfig])
def test_what_comes_at_the_highest_rate_that_a_file_may_set_is_let_in(section: type[BaseModel]) -> None:
    """Safety's decisions, an arm's states and a device's samples; 30 keys a second come between."""
    rate_hz = next(mark.le for mark in section.model_fields["rate_hz"].metadata if hasattr(mark, "le"))
    door = Doorkeeper("fr3/safety/cmd", largest_bytes=512, rate_hz=MOST_HZ)
    assert all(door.lets_in(200, round(count * 1e9 / (rate_hz + 30))) for count in range(1, 1000))
