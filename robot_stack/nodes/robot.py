"""ROS 2 face of the robot. Backend `sim`: MuJoCo in real time, behind the topics of a real arm.

Physics advances by what has passed on the steady clock. A process that falls behind catches up by a few steps and
then lets the rest go: simulated time slows down instead of the control rate breaking down.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Header, String

from robot_stack.control.output_watchdog import OutputWatchdog
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    header_of,
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
from robot_stack.nodes.diagnostics import Diagnosis, Due, Level, RateMeter
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.nodes.seeing import seen_to_vector
from robot_stack.run.build import build_world
from robot_stack.run.local_cell import see
from robot_stack.types.errors import RobotError
from robot_stack.types.robot import RobotState

STEP_S = 0.01
STEP_NS = 10_000_000
MAX_CATCH_UP_STEPS = 4
VIEW_HZ = 50.0


class StateViews:
    """The state in the messages that tools expect; each published only while somebody subscribes."""

    def __init__(self, node: StackNode, joint_names: list[str], base_frame: str, tcp_frame: str) -> None:
        types = (JointState, PoseStamped, TwistStamped, WrenchStamped, JointState)
        self._publishers = [node.create_publisher(kind, topic, STATE) for kind, topic in zip(types, topics.STATE_VIEWS)]
        self._names = joint_names
        self._base = base_frame
        self._tcp = tcp_frame
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


class SimRobotNode(StackNode):
    """Owns the simulated world; obeys safety/cmd and nothing else."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("robot", settings.namespace)
        run = settings.run
        self._world = build_world(run)
        self._world.reset(run.run.seed)
        self._watchdog = OutputWatchdog(run.safety.output_timeout_s)
        self._gripper: float | None = None
        self._fault = ""
        self._truth: bool | None = None
        self._tcp_frame = run.robot.tcp_frame
        self._counters: Counter[str] = Counter()
        self._meter = RateMeter(1.0 / STEP_S)
        self._views = StateViews(
            self, [joint.name for joint in run.robot.joints], run.robot.base_frame, run.robot.tcp_frame
        )
        self._advertise()
        self.create_subscription(TwistStamped, topics.COMMAND, self._on_command, NEWEST)
        self.create_subscription(JointState, topics.COMMAND_GRIPPER, self._on_gripper, NEWEST)
        self.create_subscription(Header, topics.RESET_REQUEST, self._on_reset, NEWEST)
        self._snapshot_due = Due(max(camera.rate_hz for camera in run.cameras.values()))
        self._seen_due = Due(run.teleop.rate_hz)
        self._view_due = Due(VIEW_HZ)
        self._stepped_ns = time.monotonic_ns()
        self._set_fault("")
        self.steady_timer(1.0 / STEP_S, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Physics and watchdog."""
        self._look_for_subscribers()
        now_ns = time.monotonic_ns()
        values = {**self._meter.values(now_ns), **self._counters, **self._watchdog.counters}
        if self._fault:
            return [Diagnosis(task="arm", level=Level.ERROR, message=self._fault, values=values)]
        return [Diagnosis(task="arm", values=values)]

    def _advertise(self) -> None:
        self._applied = self.create_publisher(TwistStamped, topics.APPLIED, STATE)
        self._applied_wanted = False
        self._state = self.create_publisher(JointState, topics.STATE, STATE)
        self._faults = self.create_publisher(String, topics.FAULT, LATCHED)
        self._snapshot = self.create_publisher(JointState, topics.SNAPSHOT, NEWEST)
        self._seen = self.create_publisher(JointState, topics.SEEN, NEWEST)
        self._truths = self.create_publisher(Bool, topics.TRUTH, LATCHED)
        self._done: Publisher = self.create_publisher(Header, topics.RESET_DONE, LATCHED)

    def _on_command(self, msg: TwistStamped) -> None:
        self._watchdog.offer(twist_from_msg(msg), stamp_ns_of(msg.header), time.monotonic_ns())

    def _on_gripper(self, msg: JointState) -> None:
        opening = vector_from_msg(msg)
        if opening.shape == (1,) and 0.0 <= opening[0] <= 1.0:
            self._gripper = float(opening[0])

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        self._advance(now_ns)
        self._publish(now_ns)

    def _look_for_subscribers(self) -> None:
        self._views.look_for_subscribers()
        self._applied_wanted = self._applied.get_subscription_count() > 0

    def _advance(self, now_ns: int) -> None:
        behind = (now_ns - self._stepped_ns + STEP_NS // 2) // STEP_NS
        steps = min(behind, MAX_CATCH_UP_STEPS)
        self._counters["lost_steps"] += behind - steps
        self._stepped_ns += behind * STEP_NS
        twist = self._watchdog.twist(now_ns)
        if self._applied_wanted:
            self._applied.publish(twist_to_msg(twist, now_ns, self._tcp_frame))
        if self._fault or steps < 1:
            return
        self._world.command(twist, self._gripper)
        try:
            self._world.advance(int(steps) * STEP_S)
        except RobotError as error:
            self._set_fault(str(error))

    def _publish(self, now_ns: int) -> None:
        state = replace(self._world.state(), stamp_ns=now_ns)
        self._state.publish(state_to_msg(state))
        if self._view_due.now(now_ns):
            self._views.publish(state)
        if self._snapshot_due.now(now_ns):
            self._snapshot.publish(vector_to_msg(self._world.snapshot(), now_ns))
        if self._seen_due.now(now_ns):
            seen = see(self._world)
            self._seen.publish(vector_to_msg(seen_to_vector(seen), now_ns))
            if seen.done != self._truth:
                self._truth = seen.done
                self._truths.publish(Bool(data=seen.done))

    def _on_reset(self, msg: Header) -> None:
        """Answers with the seed, and with what went wrong if something did."""
        answer = msg.frame_id
        self._watchdog.reset()
        self._gripper, self._truth = None, None
        try:
            self._world.reset(int(msg.frame_id))
            self._set_fault("")
        except (RobotError, ValueError) as error:
            answer = f"{msg.frame_id}: {error}"
        self._stepped_ns = time.monotonic_ns()
        self._publish(self._stepped_ns)
        self._done.publish(header_of(self._stepped_ns, answer))

    def _set_fault(self, fault: str) -> None:
        self._fault = fault
        self._faults.publish(String(data=fault))
        if fault:
            self.get_logger().error(fault)
            self.publish_diagnostics()


def main() -> int:
    """Entry point of the process."""
    return run_node("robot", SimRobotNode)


if __name__ == "__main__":
    sys.exit(main())
