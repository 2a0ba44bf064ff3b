"""A bag has what a publisher sent who came late and offers less than those before him."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap", reason="mcap is not installed: pip install 'robot-stack[export]'")
pytest.importorskip("zstandard", reason="zstandard is not installed: pip install 'robot-stack[export]'")

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from robot_stack.datasets.bag.topic_log import TopicLog
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


@pytest.mark.parametrize("first", [RELIABLE, LATCHED], ids=["reliable", "latched"])
def test_who_comes_later_and_offers_less_is_recorded_too(node: Node, tmp_path: Path, first: QoSProfile) -> None:
    log = TopicLog(tmp_path / "bag")
    recorder = TopicRecorder("/cell", log)
    executor = make_executor(recorder)
    early = node.create_publisher(String, "/cell/word", first)

    def heard(out: rclpy.publisher.Publisher, more: int) -> bool:
        out.publish(String(data="word"))
        executor.spin_once(0.05)
        return log.counts["/cell/word"] >= more

    try:
        wait_until(lambda: heard(early, 3), START_S, "the early one")
        late = node.create_publisher(String, "/cell/word", LESS)
        before = log.counts["/cell/word"]
        wait_until(lambda: heard(late, before + 3), START_S, "the late one")
        before = log.counts["/cell/word"]
        wait_until(lambda: heard(early, before + 3), START_S, "the early one, still")
    finally:
        recorder.destroy_node()
        log.close()
    assert os.path.getsize(tmp_path / "bag/000.mcap") > 0
