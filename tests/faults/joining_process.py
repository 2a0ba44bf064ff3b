"""Participants that join a cell's domain and leave, each in a process of its own: some end, some are killed.

    python joining_process.py NAMESPACE COUNT

What is slow, importing, is done once: the participants are forks of this process. It prints each one's number.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import String

STAY_S = 0.15
LONGEST_S = 10
KINDS = ("ends", "is killed", "vanishes")


def join(namespace: str, kind: str) -> None:
    """One participant, which looks around as `ros2 topic list` does, and listens as `ros2 topic echo` does."""
    signal.alarm(LONGEST_S)  # a guest that hangs on its way out is killed, as an operator would
    rclpy.init()
    node = Node("guest", namespace=namespace)
    node.create_subscription(JointState, "_wire/fr3/state", lambda _: None, 10)
    node.create_subscription(String, "safety/mode", lambda _: None, 10)
    node.create_publisher(Joy, "guest/joy", 10)
    until_s = time.monotonic() + STAY_S
    while time.monotonic() < until_s:
        node.get_topic_names_and_types()
        rclpy.spin_once(node, timeout_sec=0.02)
    if kind == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "ends":
        node.destroy_node()
        rclpy.shutdown()
    os._exit(0)


def main() -> None:
    """One after the other."""
    namespace, count = sys.argv[1], int(sys.argv[2])
    for number in range(count):
        child = os.fork()
        if child == 0:
            join(namespace, KINDS[number % len(KINDS)])
        os.waitpid(child, 0)
        print(number, flush=True)


if __name__ == "__main__":
    main()
