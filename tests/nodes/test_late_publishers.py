"""A bag has what a publisher sent who came late and offers less than those before him."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap", reason="mcap is not installed: pip install 'robot-stack[export]'")
pytest.importorskip("zstandard", reason="zstandard is not installed: pip install 'robot-stack[export]'")

import rclpy
from mcap.reader import NonSeekingReader
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from ruamel.yaml import YAML
from std_msgs.msg import String

from robot_stack.datasets.bag.topic_log import Channel, TopicLog
from robot_stack.nodes.base import make_executor
from robot_stack.nodes.tools.topic_recorder import TopicRecorder, offered_text
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


def test_what_publishers_offer_is_written_as_rosbag2_does() -> None:
    """The layout is that of its test file rosbag2_py/test/resources/sqlite3/convert_a/metadata.yaml."""
    lifespan = Duration(seconds=10, nanoseconds=5)
    second = QoSProfile(depth=2, reliability=ReliabilityPolicy.BEST_EFFORT, lifespan=lifespan)
    none = "\n    sec: 0\n    nsec: 0\n"
    common = f"  liveliness: 0\n  liveliness_lease_duration:{none}  avoid_ros_namespace_conventions: false"
    assert offered_text([LATCHED, second]) == (
        f"- history: 1\n  depth: 10\n  reliability: 1\n  durability: 1\n  deadline:{none}  lifespan:{none}{common}\n"
        f"- history: 1\n  depth: 2\n  reliability: 2\n  durability: 2\n  deadline:{none}"
        f"  lifespan:\n    sec: 10\n    nsec: 5\n{common}"
    )


def test_a_bag_says_what_the_publishers_of_a_topic_offer(node: Node, tmp_path: Path) -> None:
    log = Words(tmp_path / "bag")
    outs = [node.create_publisher(String, "/cell/word", LATCHED) for _ in range(2)]
    wait_until(lambda: node.count_publishers("/cell/word") == 2, START_S, "both publishers")
    recorder = TopicRecorder("/cell", log)
    executor = make_executor(recorder)

    def heard() -> bool:
        outs[0].publish(String(data="word"))
        executor.spin_once(0.05)
        return "word" in log.heard

    try:
        wait_until(heard, START_S, "a word")
    finally:
        recorder.destroy_node()
        log.close()
    with (tmp_path / "bag/000.mcap").open("rb") as stream:
        channels = [channel for _, channel, _ in NonSeekingReader(stream).iter_messages()]
    offered = YAML(typ="safe").load(channels[0].metadata["offered_qos_profiles"])
    assert [(each["reliability"], each["durability"]) for each in offered] in ([(1, 1)], [(1, 1)] * 2)


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
