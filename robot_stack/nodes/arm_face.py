"""What every robot process shows the cell of an arm, simulated or real: state, fault, applied twist, and the commands
that it obeys, which are safety's and nobody else's."""

from __future__ import annotations

import time

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_stack.config.robot import RobotConfig
from robot_stack.control.output_watchdog import OutputWatchdog
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import (
    joints_to_msg,
    pose_to_msg,
    stamp_ns_of,
    state_to_msg,
    twist_from_msg,
    twist_to_msg,
    vector_from_msg,
    vector_to_msg,
    wrench_to_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, Due, Level
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.types.robot import RobotState

VIEW_HZ = 50.0


class StateViews:
    """The state in the messages that tools expect; each published only while somebody subscribes."""

    def __init__(self, node: StackNode, robot: RobotConfig) -> None:
        types = (JointState, PoseStamped, TwistStamped, WrenchStamped, JointState)
        self._publishers = [node.create_publisher(kind, topic, STATE) for kind, topic in zip(types, topics.STATE_VIEWS)]
        self._names = [joint.name for joint in robot.joints]
        self._base = robot.base_frame
        self._tcp = robot.tcp_frame
        self._wanted = [False] * len(types)

    def look_for_subscribers(self) -> None:
        """Once a second is enough."""
        self._wanted = [publisher.get_subscription_count() > 0 for publisher in self._publishers]

    def publish(self, state: RobotState) -> None:
        """Those that are wanted."""
        makers = (
            lambda: joints_to_msg(state, self._names),
            lambda: pose_to_msg(state, self._base),
            lambda: twist_to_msg(state.twist, state.stamp_ns, self._tcp),
            lambda: wrench_to_msg(state, self._tcp),
            lambda: vector_to_msg(np.array([state.gripper]), state.stamp_ns),
        )
        for wanted, publisher, make in zip(self._wanted, self._publishers, makers):
            if wanted:
                publisher.publish(make())


class ArmFace:
    """Topics of one arm on the side of the cell."""

    def __init__(self, node: StackNode, arm: str, robot: RobotConfig, output_timeout_s: float) -> None:
        self.watchdog = OutputWatchdog(output_timeout_s)
        self.gripper: float | None = None
        """Newest wanted opening in [0, 1]; None before the first."""
        self.fault: str | None = None
        """As last said; None before the first time."""
        self._node = node
        self._arm = arm
        self._tcp_frame = robot.tcp_frame
        self._views = StateViews(node, robot)
        self._view_due = Due(VIEW_HZ)
        self._applied = node.create_publisher(TwistStamped, topics.APPLIED, STATE)
        self._applied_wanted = False
        self._state = node.create_publisher(JointState, topics.STATE, STATE)
        self._faults = node.create_publisher(String, topics.FAULT, LATCHED)
        node.create_subscription(TwistStamped, topics.COMMAND, self._on_command, NEWEST)
        node.create_subscription(JointState, topics.COMMAND_GRIPPER, self._on_gripper, NEWEST)

    def diagnose(self) -> Diagnosis:
        """The arm's fault and watchdog; looks for new subscribers too."""
        self.look_for_subscribers()
        level, message = (Level.ERROR, self.fault) if self.fault else (Level.OK, "ok")
        values = {**self.watchdog.counters, "last_rejection": self.watchdog.last_rejection}
        return Diagnosis(task=f"arm {self._arm}", level=level, message=message, values=values)

    def look_for_subscribers(self) -> None:
        """Once a second is enough."""
        self._views.look_for_subscribers()
        self._applied_wanted = self._applied.get_subscription_count() > 0

    def publish_state(self, state: RobotState, now_ns: int) -> None:
        """The state, and at a lower rate its views."""
        self._state.publish(state_to_msg(state))
        if self._view_due.now(now_ns):
            self._views.publish(state)

    def publish_applied(self, twist: np.ndarray, now_ns: int) -> None:
        """What the arm is told now, (6,), tcp frame."""
        if self._applied_wanted:
            self._applied.publish(twist_to_msg(twist, now_ns, self._tcp_frame))

    def say_fault(self, fault: str) -> None:
        """A sentence, "" if there is none; sent on a change, and a fault at once in the diagnostics too."""
        if fault == self.fault:
            return
        self.fault = fault
        self._faults.publish(String(data=fault))
        if fault:
            self._node.get_logger().error(f"{self._arm}: {fault}")
            self._node.publish_diagnostics()

    def reset(self) -> None:
        """Forget commands and wishes, as after a reset of the scene."""
        self.watchdog.reset()
        self.gripper = None

    def _on_command(self, msg: TwistStamped) -> None:
        self.watchdog.offer(twist_from_msg(msg), stamp_ns_of(msg.header), time.monotonic_ns())

    def _on_gripper(self, msg: JointState) -> None:
        opening = vector_from_msg(msg)
        if opening.shape == (1,) and 0.0 <= opening[0] <= 1.0:
            self.gripper = float(opening[0])
