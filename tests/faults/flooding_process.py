"""A stranger that sends as fast as one process can, on topics of the safety path.

    python flooding_process.py NAMESPACE ARM SECONDS

It says "flooding" when the first message is out, and ends after so many seconds.
"""

from __future__ import annotations

import sys
import time

import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState, Joy

from robot_stack.nodes import topics
from robot_stack.nodes.conversion import events_to_msg
from robot_stack.nodes.qos import NEWEST

LISTENED_S = 20.0


def main() -> None:
    """Keys and states, in turn."""
    namespace, arm, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rclpy.init()
    node = Node("flood", namespace=namespace)
    outs = [
        (node.create_publisher(Joy, topics.EVENTS, NEWEST), events_to_msg(("success",), 0, "nobody")),
        (node.create_publisher(JointState, topics.state(arm), NEWEST), JointState()),
    ]
    patience_s = time.monotonic() + LISTENED_S
    while not all(out.get_subscription_count() for out, _ in outs):
        assert time.monotonic() < patience_s, "nobody listens"
        time.sleep(0.01)
    print("flooding", flush=True)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for out, msg in outs:
            out.publish(msg)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
