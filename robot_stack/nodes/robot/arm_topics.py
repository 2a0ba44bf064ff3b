"""An arm's topics in the robot process: state, fault and applied twist go out, commands of the safety process come in.

That is the safety process and nobody else: its seal is asked of every command, of motion and of the gripper.
"""

from __future__ import annotations

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState

from robot_stack.config.robot import RobotConfig
from robot_stack.control.safety.output_watchdog import OutputWatchdog
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import (
    fault_to_msg,
    joints_to_msg,
    mode_of_frame,
    opening_to_msg,
    pose_to_msg,
    stamp_ns_of,
    state_to_msg,
    twist_from_msg,
    twist_to_msg,
    vector_from_msg,
    wrench_to_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, Due
from robot_stack.nodes.door import GuardedTopic
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.nodes.topics import ArmNames
from robot_stack.types.finding import Level
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_arm import build_hard_limits

VIEW_HZ = 50.0


class StateViews:
    """Publishers of an arm's state in the messages that tools expect; each is silent while nobody subscribes."""

    def __init__(self, node: StackNode, arm: str, robot: RobotConfig) -> None:
        types = (JointState, PoseStamped, TwistStamped, WrenchStamped, JointState)
        self._publishers = [
            node.create_publisher(kind, topics.state_view(arm, view), STATE) for kind, view in zip(types, topics.VIEWS)
        ]
        self._names = ArmNames.of(arm, robot)
        self._wanted = [False] * len(types)

    def look_for_subscribers(self) -> None:
        """Find out which views somebody subscribes to; once a second is enough."""
        self._wanted = [publisher.get_subscription_count() > 0 for publisher in self._publishers]

    def publish(self, state: RobotState) -> None:
        """Publish the views of a state that somebody subscribes to."""
        makers = (
            lambda: joints_to_msg(state, list(self._names.joints)),
            lambda: pose_to_msg(state, self._names.base),
            lambda: twist_to_msg(state.twist, state.stamp_ns, self._names.tcp),
            lambda: wrench_to_msg(state, self._names.tcp),
            lambda: opening_to_msg(state, self._names.gripper),
        )
        for wanted, publisher, make in zip(self._wanted, self._publishers, makers):
            if wanted:
                publisher.publish(make())


class ArmTopics:
    """One arm's topics in the cell, with the watchdog of its commands."""

    def __init__(self, node: StackNode, arm: str, robot: RobotConfig, output_timeout_s: float) -> None:
        self.watchdog = OutputWatchdog(output_timeout_s, topics.command(arm), build_hard_limits(robot))
        self.fault: Fault | None = None
        """As last said."""
        self._said = False
        self._reported: Fault | None = None
        self._rivals: Fault | None = None
        self._node = node
        self._arm = arm
        self._tcp_frame = ArmNames.of(arm, robot).tcp
        self._views = StateViews(node, arm, robot)
        self._view_due = Due(VIEW_HZ)
        self._applied = node.create_publisher(TwistStamped, topics.applied(arm), STATE)
        self._applied_wanted = False
        self._state = node.create_publisher(JointState, topics.state(arm), STATE)
        self._faults = node.create_publisher(DiagnosticArray, topics.fault(arm), LATCHED)
        refused = self.watchdog.refuse
        self._doors = (
            GuardedTopic(node, TwistStamped, topics.command(arm), self._on_command, NEWEST, refused),
            GuardedTopic(node, JointState, topics.command_gripper(arm), self._on_gripper, NEWEST, refused),
        )

    def diagnose(self) -> Diagnosis:
        """Return a diagnosis of the arm's fault and watchdog; looks for new subscribers too, once a second."""
        self._views.look_for_subscribers()
        self._applied_wanted = self._applied.get_subscription_count() > 0
        level, message = (Level.FAIL, self.fault.text) if self.fault else (Level.OK, "ok")
        values = {**self.watchdog.counters, "last_rejection": self.watchdog.last_rejection}
        return Diagnosis(task=f"arm {self._arm}", level=level, message=message, values=values)

    @property
    def gripper(self) -> float | None:
        """Return the newest wanted opening in [0, 1]; None before the first, and while nothing may move."""
        return self.watchdog.gripper

    def forget_gripper(self) -> None:
        """Drop a wanted opening that must not outlive a fault: a hand may be between the fingers."""
        self.watchdog.gripper = None

    def publish_state(self, state: RobotState, now_ns: int) -> None:
        """Publish the state, and at a lower rate its views."""
        self._state.publish(self._node.sealer.seal(topics.state(self._arm), state_to_msg(state)))
        if self._view_due.now(now_ns):
            self._views.publish(state)

    def publish_applied(self, twist: np.ndarray, now_ns: int) -> None:
        """Publish the twist that the arm is told now, shape (6,), tcp frame, while somebody subscribes."""
        if self._applied_wanted:
            self._applied.publish(twist_to_msg(twist, now_ns, self._tcp_frame))

    def say_fault(self, fault: Fault | None) -> None:
        """Publish the arm's fault, or that there is none, on a change; a fault at once in the diagnostics too."""
        self._reported = fault
        self._say()

    def look_for_rivals(self, now_ns: int) -> None:
        """Report a second safety process as a fault while both live; the watchdog passes on neither."""
        for door in self._doors:
            door.tend(now_ns)
        contested = self.watchdog.contested(now_ns)
        rivals = None if contested is None else Fault(kind=FaultKind.SECOND_SENDER, text=contested.text)
        if rivals != self._rivals:
            self._rivals = rivals
            self._say()

    def reset(self) -> None:
        """Forget commands and wanted openings, as after a reset of the scene."""
        self.watchdog.reset()

    def _say(self) -> None:
        fault = self._reported or self._rivals
        if self._said and fault == self.fault:
            return
        self.fault, self._said = fault, True
        msg = fault_to_msg(fault, self._arm, time.monotonic_ns())
        self._faults.publish(self._node.sealer.seal(topics.fault(self._arm), msg))
        if fault:
            self._node.get_logger().error(f"{self._arm}: {fault}")
            self._node.publish_diagnostics()

    def _on_command(self, msg: TwistStamped) -> None:
        if self._node.active:
            self.watchdog.offer(
                twist_from_msg(msg),
                stamp_ns_of(msg.header),
                time.monotonic_ns(),
                session=self._node.sealer.sender(topics.command(self._arm), msg),
                mode=mode_of_frame(msg.header.frame_id),
            )

    def _on_gripper(self, msg: JointState) -> None:
        if self._node.active:
            opening = vector_from_msg(msg)
            self.watchdog.offer_gripper(
                float(opening[0]) if opening.shape == (1,) else None,
                stamp_ns_of(msg.header),
                time.monotonic_ns(),
                session=self._node.sealer.sender(topics.command_gripper(self._arm), msg),
            )
