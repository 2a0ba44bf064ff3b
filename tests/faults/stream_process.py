"""A policy or a hand as a process of its own, to be killed, frozen or held up. Silent until told on rig/<kind>.

    python stream_process.py policy|hand --run RUN_YAML

An order is JSON: {"twist": [6 numbers] or null for silence, "deadman": bool, "stall_s": seconds}.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import Joy
from std_msgs.msg import String

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import frame_of_session, teleop_to_msg, twist_to_msg
from robot_stack.nodes.qos import LATCHED, NEWEST
from robot_stack.types.robot import TeleopSample

KIND = sys.argv.pop(1)
RATE_HZ = {"policy": 20.0, "hand": 50.0}[KIND]


class Stream(StackNode):
    """Publishes what the last order says."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(KIND, settings.namespace, key=settings.key)
        self._twist: np.ndarray | None = None
        self._deadman = False
        arm = settings.run.robot.name
        topic, kind = (topics.policy(arm), TwistStamped) if KIND == "policy" else (topics.teleop(arm), Joy)
        self._topic = topic
        self._out = self.create_publisher(kind, topic, NEWEST)
        self.create_subscription(String, f"rig/{KIND}", self._on_order, LATCHED)
        self.steady_timer(RATE_HZ, self._publish)

    def _on_order(self, msg: String) -> None:
        order = json.loads(msg.data)
        self._twist = None if order["twist"] is None else np.array(order["twist"])
        self._deadman = order.get("deadman", False)
        until_s = time.monotonic() + order.get("stall_s", 0.0)
        while time.monotonic() < until_s:
            pass  # as a garbage collection or an extension that keeps the lock

    def _publish(self) -> None:
        if self._twist is None:
            return
        now_ns = time.monotonic_ns()
        if KIND == "policy":
            self._out.publish(twist_to_msg(self._twist, now_ns, frame_of_session("tcp", self.session)))
        else:
            sample = TeleopSample(stamp_ns=now_ns, twist=self._twist, deadman=self._deadman)
            self._out.publish(self.sealer.seal(self._topic, teleop_to_msg(sample)))


sys.exit(run_node(KIND, Stream))
