"""Two publishers of one topic are two, whatever they send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from robot_stack.nodes.sole_sender import LOOK_NS, SoleSender
from robot_stack.types.reason import RefusalKind

DOMAIN = 91
WAIT_S = 10.0


def test_two_publishers_are_refused_until_one_is_left_and_the_graph_is_not_asked_with_each_message():
    counts, asked = [1, 2, 1], []
    there = [SimpleNamespace(node_name=name) for name in ("rosbag", "joy")]
    graph = SimpleNamespace(
        get_publishers_info_by_topic=lambda topic: asked.append(topic) or there[: counts[len(asked) - 1]],
        resolve_topic_name=lambda topic: f"/cell/{topic}",
    )
    sender = SoleSender(graph, "joy")
    assert sender.refusal(0) is None
    refusal = sender.refusal(LOOK_NS)
    assert refusal is not None
    assert refusal.kind is RefusalKind.SECOND_SENDER
    assert "/cell/joy has 2 publishers (joy, rosbag), must have one" in refusal.text
    assert sender.refusal(2 * LOOK_NS - 1) is refusal
    assert sender.refusal(2 * LOOK_NS) is None
    assert asked == ["joy"] * 3


@pytest.fixture
def remapped(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A node that hears /joy where /left/joy is published, and two others that may publish."""
    rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    rclpy.init()
    hearing = rclpy.create_node("hearing", cli_args=["--ros-args", "-r", "/joy:=/left/joy"])
    others = [rclpy.create_node(name) for name in ("one", "two")]
    yield SimpleNamespace(hearing=hearing, others=others)
    for node in (hearing, *others):
        node.destroy_node()
    rclpy.try_shutdown()


@pytest.mark.parametrize(("topic", "refused"), [("/left/joy", True), ("/joy", False)])
def test_the_publishers_that_count_are_those_that_are_heard(
    topic: str, refused: bool, remapped: SimpleNamespace
) -> None:
    from std_msgs.msg import Empty

    for node in remapped.others:
        node.create_publisher(Empty, topic, 1)
    end_s = time.monotonic() + WAIT_S
    while remapped.others[0].count_publishers(topic) < 2 and time.monotonic() < end_s:
        time.sleep(0.01)
    time.sleep(0.2)
    refusal = SoleSender(remapped.hearing, "/joy").refusal(0)
    assert (refusal is not None) == refused
    if refusal is not None:
        assert refusal.text.startswith("/left/joy has 2 publishers (one, two)")
