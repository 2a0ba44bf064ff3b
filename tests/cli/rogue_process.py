"""A program that has no business in a cell: it commands the arm too, and asks for state that nobody keeps."""

import sys

from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.qos import LATCHED, NEWEST


class Rogue(StackNode):
    """Sends nothing; being there is enough."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("rogue", settings.namespace)
        arm = settings.run.robot.name
        self.create_publisher(TwistStamped, topics.command(arm), NEWEST)
        self.create_subscription(JointState, topics.state(arm), lambda _: None, LATCHED)
        self.create_subscription(JointState, "nobody/here", lambda _: None, NEWEST)
        print("up", flush=True)


sys.exit(run_node("rogue", Rogue))
