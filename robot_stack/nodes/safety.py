"""ROS 2 face of the safety filter; decisions live in robot_stack.control.safety.

Runs in its own process, so that it outlives a crashed actor. Publishes at `rate_hz` also when nothing arrives: then
it holds. Not a safety-rated function.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    decision_to_msg,
    events_from_msg,
    mode_to_text,
    stamp_ns_of,
    state_from_msg,
    teleop_from_msg,
    twist_from_msg,
    twist_to_msg,
    vector_from_msg,
    vector_to_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, Level, RateMeter
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, SAMPLED
from robot_stack.nodes.stamp_join import StampJoin
from robot_stack.run.build_safety import build_safety
from robot_stack.types.command import Command, Decision, Mode, Source
from robot_stack.types.errors import SpecError


class SafetyNode(StackNode):
    """Feeds messages to the filter and publishes its decision, once per tick. The only publisher of commands."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("safety", settings.namespace)
        run = settings.run
        self._filter = build_safety(run)
        self._arm = run.robot.name
        self._frames = {run.robot.tcp_frame: "tcp", run.robot.base_frame: "base"}
        self._tcp_frame = run.robot.tcp_frame
        self._with_gripper = run.task.arm.gripper != "none"
        self._joined: StampJoin[TwistStamped, float] = StampJoin()
        self._robot_fault = ""
        self._said: tuple[Mode, str] | None = None
        self._meter = RateMeter(run.safety.rate_hz)
        self._commands = self.create_publisher(TwistStamped, topics.COMMAND, NEWEST)
        self._grippers = self.create_publisher(JointState, topics.COMMAND_GRIPPER, NEWEST)
        self._labels = self.create_publisher(Joy, topics.LABEL, EVERY)
        self._modes = self.create_publisher(String, topics.MODE, LATCHED)
        self._estops = self.create_publisher(Bool, topics.ESTOP, LATCHED)
        self._subscribe()
        self._serve()
        self.steady_timer(run.safety.rate_hz, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Mode, tick rate and everything the filter counted."""
        said = self._filter
        values = {**self._meter.values(time.monotonic_ns()), **said.counters, "last_rejection": said.last_rejection}
        level = {Mode.STOP: Level.ERROR, Mode.HOLD: Level.WARN}.get(said.mode, Level.OK)
        return [Diagnosis(task="filter", level=level, message=mode_to_text(said.mode, said.reason), values=values)]

    def safe_stop(self, reason: str) -> None:
        """The last command is zero; the robot's own watchdog covers the rest."""
        self._filter.hold(f"safety process ends: {reason}")
        self._commands.publish(twist_to_msg(np.zeros(6), time.monotonic_ns(), self._tcp_frame))
        self._say_mode()

    def _subscribe(self) -> None:
        self.create_subscription(JointState, topics.STATE, self._on_state, SAMPLED)
        self.create_subscription(String, topics.FAULT, self._on_fault, LATCHED)
        self.create_subscription(TwistStamped, topics.POLICY, self._on_policy, NEWEST)
        if self._with_gripper:
            self.create_subscription(JointState, topics.POLICY_GRIPPER, self._on_policy_gripper, NEWEST)
        self.create_subscription(Joy, topics.TELEOP, self._on_teleop, NEWEST)
        self.create_subscription(Joy, topics.EVENTS, self._on_events, EVERY)

    def _serve(self) -> None:
        """One Trigger service per request; the answer says why it was refused."""
        said = self._filter

        def granted(action: Callable[[], None]) -> Callable[[int], str]:
            def request(_: int) -> str:
                action()
                return ""

            return request

        requests: dict[str, Callable[[int], str]] = {
            "arm": said.arm,
            "disarm": granted(said.disarm),
            "start_policy": lambda now_ns: said.start(now_ns, policy_expected=True),
            "start_demo": lambda now_ns: said.start(now_ns, policy_expected=False),
            "end_episode": granted(said.end_episode),
            "hold": granted(lambda: said.hold("hold requested by service")),
            "resume": said.resume,
            "stop": granted(lambda: said.stop("stop requested", who="service")),
            "clear_stop": said.clear_stop,
        }
        for name in topics.SAFETY_REQUESTS:
            self.create_service(Trigger, topics.safety_service(name), self._answer(name, requests[name]))

    def _answer(
        self, name: str, request: Callable[[int], str]
    ) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def respond(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            refusal = request(time.monotonic_ns())
            if refusal:
                self.get_logger().warning(f"{name} refused: {refusal}")
            self._say_mode()
            response.success, response.message = not refusal, refusal or str(self._filter.mode)
            return response

        return respond

    def _on_state(self, msg: JointState) -> None:
        try:
            state = state_from_msg(msg, self._arm, self._robot_fault)
        except SpecError as error:
            self._refuse("state", str(error))
            return
        self._filter.offer_state(state, time.monotonic_ns())

    def _on_fault(self, msg: String) -> None:
        self._robot_fault = msg.data

    def _on_policy(self, msg: TwistStamped) -> None:
        if not self._with_gripper:
            self._offer(msg, None)
            return
        pair = self._joined.first(stamp_ns_of(msg.header), msg)
        if pair is not None:
            self._offer(*pair)

    def _on_policy_gripper(self, msg: JointState) -> None:
        opening = vector_from_msg(msg)
        pair = self._joined.second(stamp_ns_of(msg.header), float(opening[0]) if opening.shape == (1,) else np.nan)
        if pair is not None:
            self._offer(*pair)

    def _offer(self, msg: TwistStamped, gripper: float | None) -> None:
        """A negative opening is no wish; NaN and anything above 1 is refused by the filter."""
        frame = msg.header.frame_id
        command = Command(
            arm=self._arm,
            twist=twist_from_msg(msg),
            frame=self._frames.get(frame, frame),
            gripper=None if gripper is not None and gripper < 0.0 else gripper,
            stamp_ns=stamp_ns_of(msg.header),
            source=Source.POLICY,
        )
        self._filter.offer(command, time.monotonic_ns())

    def _on_teleop(self, msg: Joy) -> None:
        try:
            sample = teleop_from_msg(msg)
        except SpecError as error:
            self._refuse("teleop", str(error))
            return
        self._filter.offer_teleop(sample, time.monotonic_ns())

    def _on_events(self, msg: Joy) -> None:
        """Keys of the person. Success, failure and discard are the actor's business."""
        events, device, now_ns = events_from_msg(msg), msg.header.frame_id, time.monotonic_ns()
        if "stop" in events:
            self._filter.stop("stop pressed", who=device)
        if "hold" in events:
            self._filter.hold(f"hold pressed on {device}")
        if "arm" in events:
            refusal = self._filter.resume(now_ns) if self._filter.mode is Mode.HOLD else self._filter.arm(now_ns)
            if refusal:
                self.get_logger().warning(f"arm on {device} refused: {refusal}")
        self._say_mode()

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        decision = self._filter.decide(now_ns)
        self._publish(decision)
        self._say_mode()

    def _publish(self, decision: Decision) -> None:
        command = decision.command
        self._commands.publish(twist_to_msg(command.twist, command.stamp_ns, self._tcp_frame))
        if command.gripper is not None:
            self._grippers.publish(vector_to_msg(np.array([command.gripper]), command.stamp_ns))
        self._labels.publish(decision_to_msg(decision))

    def _say_mode(self) -> None:
        """On a change, with who and why in the log."""
        now = (self._filter.mode, self._filter.reason)
        if now == self._said:
            return
        was, self._said = self._said, now
        self._modes.publish(String(data=mode_to_text(*now)))
        if was is None or (was[0] is Mode.STOP) != (now[0] is Mode.STOP):
            self._estops.publish(Bool(data=now[0] is Mode.STOP))
        self.get_logger().info(f"{was[0] if was else 'start'} -> {mode_to_text(*now)}")

    def _refuse(self, stream: str, refusal: str) -> None:
        self._filter.counters[f"rejected_{stream}"] += 1
        self._filter.last_rejection = refusal


def main() -> int:
    """Entry point of the process."""
    return run_node("safety", SafetyNode)


if __name__ == "__main__":
    sys.exit(main())
