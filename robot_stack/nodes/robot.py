"""ROS 2 face of the robot. Backend `sim`: MuJoCo in real time, behind the topics of a real arm.

Physics advances by what has passed on the steady clock. A process that falls behind catches up by a few steps and
then lets the rest go: simulated time slows down instead of the control rate breaking down.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace

from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Header

from robot_stack.nodes import topics
from robot_stack.nodes.arm_face import ArmFace
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import header_of, vector_to_msg
from robot_stack.nodes.diagnostics import Diagnosis, Due, RateMeter
from robot_stack.nodes.qos import LATCHED, NEWEST
from robot_stack.nodes.seeing import seen_to_vector
from robot_stack.run.build import build_world
from robot_stack.run.local_cell import see
from robot_stack.types.errors import RobotError

STEP_S = 0.01
STEP_NS = 10_000_000
MAX_CATCH_UP_STEPS = 4


class SimRobotNode(StackNode):
    """Owns the simulated world; obeys safety/cmd and nothing else."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("robot", settings.namespace)
        run = settings.run
        self._world = build_world(run)
        self._world.reset(run.run.seed)
        self._face = ArmFace(self, run.robot.name, run.robot, run.safety.output_timeout_s)
        self._truth: bool | None = None
        self._counters: Counter[str] = Counter()
        self._meter = RateMeter(1.0 / STEP_S)
        self._advertise()
        self.create_subscription(Header, topics.RESET_REQUEST, self._on_reset, NEWEST)
        self._snapshot_due = Due(max(camera.rate_hz for camera in run.cameras.values()))
        self._seen_due = Due(run.teleop.rate_hz)
        self._stepped_ns = time.monotonic_ns()
        self._face.say_fault("")
        self.steady_timer(1.0 / STEP_S, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Physics, and the arm."""
        values = {**self._meter.values(time.monotonic_ns()), **self._counters}
        return [Diagnosis(task="physics", values=values), self._face.diagnose()]

    def _advertise(self) -> None:
        self._snapshot = self.create_publisher(JointState, topics.SNAPSHOT, NEWEST)
        self._seen = self.create_publisher(JointState, topics.SEEN, NEWEST)
        self._truths = self.create_publisher(Bool, topics.TRUTH, LATCHED)
        self._done: Publisher = self.create_publisher(Header, topics.RESET_DONE, LATCHED)

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        self._advance(now_ns)
        self._publish(now_ns)

    def _advance(self, now_ns: int) -> None:
        behind = (now_ns - self._stepped_ns + STEP_NS // 2) // STEP_NS
        steps = min(behind, MAX_CATCH_UP_STEPS)
        self._counters["lost_steps"] += behind - steps
        self._stepped_ns += behind * STEP_NS
        twist = self._face.watchdog.twist(now_ns)
        self._face.publish_applied(twist, now_ns)
        if self._face.fault or steps < 1:
            return
        self._world.command(twist, self._face.gripper)
        try:
            self._world.advance(int(steps) * STEP_S)
        except RobotError as error:
            self._face.say_fault(str(error))

    def _publish(self, now_ns: int) -> None:
        self._face.publish_state(replace(self._world.state(), stamp_ns=now_ns), now_ns)
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
        self._face.reset()
        self._truth = None
        try:
            self._world.reset(int(msg.frame_id))
            self._face.say_fault("")
        except (RobotError, ValueError) as error:
            answer = f"{msg.frame_id}: {error}"
        self._stepped_ns = time.monotonic_ns()
        self._publish(self._stepped_ns)
        self._done.publish(header_of(self._stepped_ns, answer))


def main() -> int:
    """Entry point of the process."""
    return run_node("robot", SimRobotNode)


if __name__ == "__main__":
    sys.exit(main())
