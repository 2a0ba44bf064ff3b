"""A policy that only publishes a slow motion of every arm, to be killed."""

import sys
import time

from geometry_msgs.msg import TwistStamped

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import twist_to_msg
from robot_stack.nodes.qos import NEWEST


class SlowPolicy(StackNode):
    """5 mm/s along x of each tool, at 20 Hz."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("policy", settings.namespace)
        self._out = [self.create_publisher(TwistStamped, topics.policy(arm), NEWEST) for arm in settings.run.robots]
        self.steady_timer(20.0, self._publish)

    def _publish(self) -> None:
        now_ns = time.monotonic_ns()
        for out in self._out:
            out.publish(twist_to_msg([0.005, 0.0, 0.0, 0.0, 0.0, 0.0], now_ns, "tcp"))


sys.exit(run_node("policy", SlowPolicy))
