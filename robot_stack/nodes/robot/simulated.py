"""ROS 2 face of simulated arms: MuJoCo in real time, behind the topics of real ones.

Physics advances by what has passed on the steady clock. A process that falls behind catches up by a few steps and
then lets the rest go: simulated time slows down instead of the control rate breaking down.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import numpy as np
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Header, String

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode
from robot_stack.nodes.conversion import header_of, stamp_ns_of, vector_to_msg
from robot_stack.nodes.diagnostics import Diagnosis, Due, RateMeter
from robot_stack.nodes.episode_status import ResetRequest
from robot_stack.nodes.parameters import robot_parts
from robot_stack.nodes.qos import LATCHED, NEWEST
from robot_stack.nodes.robot.arm_topics import ArmTopics
from robot_stack.nodes.seeing import seen_to_vector
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.stamp import FUTURE_TOLERANCE_NS
from robot_stack.workcell.build import build_world
from robot_stack.workcell.local_cell import see
from sim.description import urdf_of

STEP_S = 0.01
STEP_NS = 10_000_000
MAX_CATCH_UP_STEPS = 4


class SimRobotNode(StackNode):
    """The robot node of a simulated cell: owns the world with all arms, and obeys only the safety process."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("robot", settings.namespace, key=settings.key)
        self.show_settings(settings.run, robot_parts(settings.run))
        run = settings.run
        self._world = build_world(run)
        self._world.reset(run.run.seed)
        self._faulty = False
        self._reset_ns = time.monotonic_ns()
        self._truth: bool | None = None
        self._counters: Counter[str] = Counter()
        self._meter = RateMeter(1.0 / STEP_S)
        self._faces = {
            name: ArmTopics(self, name, robot, run.safety.output_timeout_s) for name, robot in run.robots.items()
        }
        self._snapshot = self.create_publisher(JointState, topics.SNAPSHOT, NEWEST)
        self._seen = self.create_publisher(JointState, topics.SEEN, NEWEST)
        self._truths = self.create_publisher(Bool, topics.TRUTH, LATCHED)
        self._done: Publisher = self.create_publisher(Header, topics.RESET_DONE, LATCHED)
        self.create_subscription(Header, topics.RESET_REQUEST, self._on_reset, NEWEST)
        self._snapshot_due = Due(max(camera.rate_hz for camera in run.cameras.values()))
        self._seen_due = Due(max(teleop.rate_hz for teleop in run.teleops.values()))
        self._stepped_ns = time.monotonic_ns()
        self._say_fault(None)
        self._description = self.create_publisher(String, topics.ROBOT_DESCRIPTION, LATCHED)
        simulated = [name for name, camera in run.cameras.items() if camera.backend == "sim"]
        self._description.publish(String(data=urdf_of(self._world, simulated)))
        self.steady_timer(1.0 / STEP_S, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Return diagnoses of the physics and of each arm."""
        values = {**self._meter.values(time.monotonic_ns()), **self._counters}
        return [Diagnosis(task="physics", values=values), *(face.diagnose() for face in self._faces.values())]

    def deactivate(self) -> None:
        """Forget the commands of every arm, so that no twist is followed any more."""
        for face in self._faces.values():
            face.watchdog.reset()

    def safe_stop(self, reason: str) -> None:
        """Send zero to the motors of every arm, whoever else still sends."""
        for name, face in self._faces.items():
            face.publish_applied(np.zeros(6), time.monotonic_ns())
            self._world.command(np.zeros(6), arm=name)

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        for face in self._faces.values():
            face.look_for_rivals(now_ns)
        self._advance(now_ns)
        self._publish(now_ns)

    def _advance(self, now_ns: int) -> None:
        behind = (now_ns - self._stepped_ns + STEP_NS // 2) // STEP_NS
        steps = min(behind, MAX_CATCH_UP_STEPS)
        self._counters["lost_steps"] += behind - steps
        self._stepped_ns += behind * STEP_NS
        moving = steps > 0 and not self._faulty
        for name, face in self._faces.items():
            twist = face.watchdog.twist(now_ns)
            face.publish_applied(twist, now_ns)
            if moving:
                self._world.command(twist, face.gripper, arm=name)
        if not moving:
            return
        try:
            self._world.advance(int(steps) * STEP_S)
        except RobotError as error:
            self._say_fault(Fault(kind=FaultKind.SIMULATOR, text=str(error)))

    def _publish(self, now_ns: int) -> None:
        for name, face in self._faces.items():
            face.publish_state(replace(self._world.state(name), stamp_ns=now_ns), now_ns)
        if self._faulty:  # nobody shall see, or call a success or a failure, what no motion has led to
            return
        if self._snapshot_due.now(now_ns):
            self._snapshot.publish(vector_to_msg(self._world.snapshot(), now_ns))
        if self._seen_due.now(now_ns):
            seen = see(self._world)
            self._seen.publish(vector_to_msg(seen_to_vector(seen), now_ns))
            if seen.done != self._truth:
                self._truth = seen.done
                self._truths.publish(Bool(data=seen.done))

    def _on_reset(self, msg: Header) -> None:
        """Reset the world as requested, and answer with the request and what went wrong, if something did.

        A request that is not newer than this process and the last one that it obeyed is one of a bag played back.
        """
        asked_ns = stamp_ns_of(msg)
        if not self._reset_ns < asked_ns <= time.monotonic_ns() + FUTURE_TOLERANCE_NS:
            self._counters["old_resets"] += 1
            return
        answer, self._reset_ns = msg.frame_id, asked_ns
        self._truth = None
        for face in self._faces.values():
            face.reset()
        try:
            request = ResetRequest.from_text(msg.frame_id)
            if request.scene or self._faulty:  # nothing else brings a scene back that has blown up
                self._world.reset(request.seed)
                self._say_fault(None)
            self._world.turn(request.task_id)
        except (RobotError, SpecError) as error:
            answer = f"{msg.frame_id}: {error}"
        self._stepped_ns = time.monotonic_ns()
        self._publish(self._stepped_ns)
        self._done.publish(header_of(self._stepped_ns, answer))

    def _say_fault(self, fault: Fault | None) -> None:
        """Report a fault, or none, for all arms: the world is one, and what breaks it stops them all."""
        self._faulty = fault is not None
        for face in self._faces.values():
            face.say_fault(fault)
