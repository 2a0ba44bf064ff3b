"""Who commands a driver besides the robot process, by what the graph knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from robot_stack.types.reason import FaultKind

pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.qos import QoSProfile

from robot_stack.nodes.drivers.wires import UNNAMED, Wires


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        (["/cell/robot"], None),
        (["/cell/robot", f"/{UNNAMED}"], None),  # a publisher that is just coming, or has gone
        ([f"/{UNNAMED}"], None),
        (["/cell/robot", "/servo/joystick"], "/servo/joystick publishes commands on /servo/twists too"),
        (["/cell/robot", "/cell/robot"], "/cell/robot publishes commands on /servo/twists too"),
    ],
)
def test_who_else_commands_a_driver_is_named_once_he_has_a_name(nodes: list[str], named: str | None) -> None:
    found = [
        SimpleNamespace(
            node_namespace=name.rpartition("/")[0] or "/",
            node_name=name.rpartition("/")[2],
            topic_type="geometry_msgs/msg/TwistStamped",
            qos_profile=QoSProfile(depth=1),
        )
        for name in nodes
    ]
    node = SimpleNamespace(
        get_fully_qualified_name=lambda: "/cell/robot", get_publishers_info_by_topic=lambda topic: found
    )
    wires = Wires(cast(Any, node), cast(Any, SimpleNamespace(silent=lambda now_ns: ())))
    publisher = SimpleNamespace(topic_name="/servo/twists", get_subscription_count=lambda: 1)
    fault = wires._rivals_of(cast(Any, publisher))
    assert (None if fault is None else fault.kind) is (None if named is None else FaultKind.SECOND_SENDER)
    assert fault is None or fault.text.startswith(named or "")
