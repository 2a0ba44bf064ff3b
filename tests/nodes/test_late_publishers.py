"""A bag has what a publisher sent who came late and offers less than those before him."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap", reason="mcap is not installed: pip install 'robot-stack[export]'")
pytest.importorskip("zstandard", reason="zstandard is not installed: pip install 'robot-stack[export]'")

import rclpy
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from std_msgs.msg import String

from robot_stack.datasets.bag.topic_log import Channel, TopicLog
from robot_stack.nodes.base import make_executor
from robot_stack.nodes.tools.topic_recorder import TopicRecorder
from tests.nodes.cell_rig import wait_until

DOMAIN = 73
RELIABLE = QoSProfile(depth=10)
LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LESS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
START_S = 20


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    rclpy.init()
    node = rclpy.create_node("speaker")
    yield node
    node.destroy_node()
    rclpy.try_shutdown()


class Words(TopicLog):
    """A log that keeps what was written to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.heard: list[str] = []

    def add(self, channel: Channel, data: bytes, at_ns: int) -> None:
        super().add(channel, data, at_ns)
        self.heard.append(deserialize_message(data, String).data)


@pytest.mark.parametrize("first", [RELIABLE, LATCHED], ids=["reliable", "latched"])
def test_who_comes_later_and_offers_less_is_recorded_too(node: Node, tmp_path: Path, first: QoSProfile) -> None:
    log = Words(tmp_path / "bag")
    recorder = TopicRecorder("/cell", log)
    executor = make_executor(recorder)

    def heard(out: Publisher, word: str) -> bool:
        out.publish(String(data=word))
        executor.spin_once(0.05)
        return word in log.heard

    try:
        early = node.create_publisher(String, "/cell/word", first)
        wait_until(lambda: heard(early, "early"), START_S, "the early one")
        late = node.create_publisher(String, "/cell/word", LESS)
        wait_until(lambda: heard(late, "late"), START_S, "the late one")
        wait_until(lambda: heard(early, "early still"), START_S, "the early one, still")
    finally:
        recorder.destroy_node()
        log.close()
    assert (tmp_path / "bag/000.mcap").stat().st_size > 0
