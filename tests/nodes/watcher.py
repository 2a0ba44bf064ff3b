"""A node of the test's own that remembers every command, applied twist and decision."""

from __future__ import annotations

import threading
from types import TracebackType

from geometry_msgs.msg import TwistStamped
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.task import Future
from sensor_msgs.msg import Joy

from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, StackNode
from robot_stack.nodes.conversion import decision_from_msg, stamp_ns_of, twist_from_msg
from robot_stack.nodes.qos import EVERY, STATE


class Watcher:
    """Lists of (stamp_ns, value), in order of arrival."""

    def __init__(self, namespace: str, arm: str) -> None:
        self.commands: list = []
        self.applied: list = []
        self.policy: list = []
        self.decisions: list = []
        self._node = StackNode("watcher", namespace)
        for topic, kept in (
            (topics.command(arm), self.commands), (topics.applied(arm), self.applied),
            (topics.policy(arm), self.policy),
        ):  # fmt: skip
            self._node.create_subscription(TwistStamped, topic, self._keep(kept), STATE)
        self._node.create_subscription(
            Joy, topics.label(arm), lambda msg: self.decisions.append(decision_from_msg(msg, arm)), EVERY
        )
        self._stop = Future()

    @staticmethod
    def _keep(kept: list):
        return lambda msg: kept.append((stamp_ns_of(msg.header), twist_from_msg(msg)))

    def __enter__(self) -> Watcher:
        executor = EventsExecutor()
        executor.add_node(self._node)
        self._thread = threading.Thread(target=lambda: executor.spin_until_future_complete(self._stop, FOREVER_S))
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set_result(True)
        self._thread.join(5.0)
        self._node.destroy_node()
