"""What is told of a teleop device that is lost: one sentence a second at most, and what its topic carries instead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile

from robot_stack.nodes.teleop.problems import PAUSE_NS, CarriedTypes, ProblemTeller

MS = 1_000_000


def graph(*types: str) -> SimpleNamespace:
    """A graph in which a topic has publishers of these types."""
    there = [
        SimpleNamespace(node_namespace="/", node_name="bridge", topic_type=name, qos_profile=QoSProfile(depth=10))
        for name in types
    ]
    return SimpleNamespace(
        resolve_topic_name=lambda topic: topic if topic.startswith("/") else f"/cell/{topic}",
        get_publishers_info_by_topic=lambda topic: there,
    )


def test_a_pose_that_is_broken_anew_in_each_message_is_told_of_once_a_second():
    teller = ProblemTeller()
    told = [tick for tick in range(300) if teller.is_due(f"pose is [nan {tick}]", (1_000 + 10 * tick) * MS)]
    assert told == [0, 100, 200]


def test_a_loss_and_its_end_are_told_at_once_and_what_is_still_so_is_not_told_again():
    teller = ProblemTeller()
    said = [("", 0), ("silent", 1), ("silent", 5_000), ("", 5_001), ("", 5_002), ("frozen", 5_003)]
    assert [problem for problem, at_ms in said if teller.is_due(problem, at_ms * MS)] == ["silent", "", "frozen"]


def test_silence_is_explained_by_the_type_that_the_topic_carries():
    carried = CarriedTypes(graph("geometry_msgs/msg/PoseArray"), {"pose": PoseStamped})
    assert carried.explain("", 0) == ""
    assert carried.explain("leader is silent", 1) == (
        "leader is silent; /cell/pose carries geometry_msgs/msg/PoseArray, must be geometry_msgs/msg/PoseStamped; "
        "correct the topic or its type"
    )


@pytest.mark.parametrize("types", [(), ("geometry_msgs/msg/PoseStamped",)])
def test_nothing_is_added_where_nobody_publishes_or_the_type_is_right(types: tuple[str, ...]):
    assert CarriedTypes(graph(*types), {"pose": PoseStamped}).explain("leader is silent", 0) == "leader is silent"


def test_the_graph_is_asked_once_a_second_and_not_while_the_device_is_there():
    asked, here = [], graph()
    here.get_publishers_info_by_topic = lambda topic: asked.append(topic) or []
    carried = CarriedTypes(here, {"/pose": PoseStamped})
    for problem, now_ns in (("", 0), ("lost", 1), ("lost", PAUSE_NS), ("lost", PAUSE_NS + 1), ("", 9 * PAUSE_NS)):
        carried.explain(problem, now_ns)
    assert asked == ["/pose"] * 2
