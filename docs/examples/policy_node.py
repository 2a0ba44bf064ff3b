"""A policy of your own for a running cell: it draws a circle with the tool, from what it sees of the tool.

robot-stack up peg_insert --cell-only                # it prints the run's FOLDER
eval "$(robot-stack env FOLDER)"; python policy_node.py sim fr3            # in another shell
"""

import math
import sys

import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

SPEED_M_S, PERIOD_S = 0.02, 4.0


class Circle(Node):
    def __init__(self, cell: str, arm: str) -> None:
        super().__init__("circle", namespace=cell)
        self.out = self.create_publisher(TwistStamped, f"{arm}/policy/cmd", 1)
        self.start = self.create_client(Trigger, "safety/start_policy")
        kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "safety/mode", self.on_mode, kept)
        self.create_subscription(PoseStamped, f"{arm}/tcp_pose", self.act, 10)

    def on_mode(self, mode: String) -> None:
        if mode.data.startswith("READY"):  # nothing moves before an episode has been started
            self.start.call_async(Trigger.Request())

    def act(self, pose: PoseStamped) -> None:
        msg = TwistStamped(header=pose.header)  # the pose's frame is the arm's base, its stamp is ROS time
        angle = 2 * math.pi * self.get_clock().now().nanoseconds / 1e9 / PERIOD_S
        msg.twist.linear.x, msg.twist.linear.y = SPEED_M_S * math.cos(angle), SPEED_M_S * math.sin(angle)
        self.out.publish(msg)


rclpy.init()
rclpy.spin(Circle(*sys.argv[1:3]))
