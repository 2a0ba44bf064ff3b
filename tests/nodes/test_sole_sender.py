"""Two publishers of one topic are two, whatever they send."""

from __future__ import annotations

from types import SimpleNamespace

from robot_stack.nodes.sole_sender import LOOK_NS, SoleSender
from robot_stack.types.reason import RefusalKind


def test_two_publishers_are_refused_until_one_is_left_and_the_graph_is_not_asked_with_each_message():
    counts, asked = [1, 2, 1], []
    graph = SimpleNamespace(
        count_publishers=lambda topic: asked.append(topic) or counts[len(asked) - 1],
        get_publishers_info_by_topic=lambda topic: [SimpleNamespace(node_name=name) for name in ("rosbag", "joy")],
    )
    sender = SoleSender(graph, "joy")
    assert sender.refusal(0) is None
    refusal = sender.refusal(LOOK_NS)
    assert refusal is not None
    assert refusal.kind is RefusalKind.SECOND_SENDER
    assert "joy has 2 publishers (joy, rosbag), must have one" in refusal.text
    assert sender.refusal(2 * LOOK_NS - 1) is refusal
    assert sender.refusal(2 * LOOK_NS) is None
    assert asked == ["joy"] * 3
