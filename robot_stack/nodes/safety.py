"""ROS 2 face of the safety filter; decisions live in robot_stack.control.safety.

One process for all arms of a cell. Runs in its own process, so that it outlives a crashed actor. Publishes at `rate_hz`
also when nothing arrives: then it holds. Not a safety-rated function.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from robot_stack.config.resolved import RunArm
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


class ArmOutput:
    """What is published of one arm."""

    def __init__(self, node: StackNode, arm: RunArm) -> None:
        self._tcp_frame = arm.robot.tcp_frame
        self._commands = node.create_lifecycle_publisher(TwistStamped, topics.command(arm.name), NEWEST)
        self._grippers = node.create_lifecycle_publisher(JointState, topics.command_gripper(arm.name), NEWEST)
        self._labels = node.create_publisher(Joy, topics.label(arm.name), EVERY)

    def publish(self, decision: Decision) -> None:
        """The command, and what was decided about it."""
        command = decision.command
        self._commands.publish(twist_to_msg(command.twist, command.stamp_ns, self._tcp_frame))
        if command.gripper is not None:
            self._grippers.publish(vector_to_msg(np.array([command.gripper]), command.stamp_ns))
        self._labels.publish(decision_to_msg(decision))

    def stand_still(self) -> None:
        """A last command: zero."""
        self._commands.publish(twist_to_msg(np.zeros(6), time.monotonic_ns(), self._tcp_frame))


class SafetyNode(StackNode):
    """Feeds messages to the filter and publishes its decisions, once per tick. The only publisher of commands."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("safety", settings.namespace)
        run = settings.run
        self._filter = build_safety(run)
        self._arms = run.arms
        self._with_gripper = [name for name, arm in self._arms.items() if arm.action.gripper != "none"]
        parts = [*map(topics.policy, self._arms), *map(topics.policy_gripper, self._with_gripper)]
        self._joined: StampJoin[Any] = StampJoin(parts)
        self._robot_faults = dict.fromkeys(self._arms, "")
        self._drivers = dict.fromkeys(self._arms, Source.HOLD)
        self._said: tuple[Mode, str] | None = None
        self._meter = RateMeter(run.safety.rate_hz)
        self._outputs = {name: ArmOutput(self, arm) for name, arm in self._arms.items()}
        self._modes = self.create_publisher(String, topics.MODE, LATCHED)
        self._estops = self.create_publisher(Bool, topics.ESTOP, LATCHED)
        self._subscribe()
        self._serve()
        self.steady_timer(run.safety.rate_hz, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Mode, who moves each arm, tick rate and everything the filter counted."""
        said = self._filter
        drivers = ", ".join(f"{arm} {source.name}" for arm, source in self._drivers.items())
        values = {
            "drivers": drivers,
            **self._meter.values(time.monotonic_ns()),
            **said.counters,
            "last_rejection": said.last_rejection,
        }
        level = {Mode.STOP: Level.ERROR, Mode.HOLD: Level.WARN}.get(said.mode, Level.OK)
        return [Diagnosis(task="filter", level=level, message=mode_to_text(said.mode, said.reason), values=values)]

    def deactivate(self) -> None:
        """Disarmed; the last command is zero."""
        self._filter.disarm()
        for output in self._outputs.values():
            output.stand_still()
        self._say_mode()

    def safe_stop(self, reason: str) -> None:
        """The last command is zero; the robot's own watchdog covers the rest."""
        self._filter.hold(f"safety process ends: {reason}")
        for output in self._outputs.values():
            output.stand_still()
        self._say_mode()

    def _subscribe(self) -> None:
        for arm in self._arms:
            self.create_subscription(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED)
            self.create_subscription(String, topics.fault(arm), partial(self._on_fault, arm), LATCHED)
            self.create_subscription(TwistStamped, topics.policy(arm), partial(self._on_policy, arm), NEWEST)
            self.create_subscription(Joy, topics.teleop(arm), partial(self._on_teleop, arm), NEWEST)
        for arm in self._with_gripper:
            self.create_subscription(
                JointState, topics.policy_gripper(arm), partial(self._on_policy_gripper, arm), NEWEST
            )
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
            "arm": self._arm_filter,
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

    def _on_state(self, arm: str, msg: JointState) -> None:
        try:
            state = state_from_msg(msg, arm, self._robot_faults[arm])
        except SpecError as error:
            self._filter.refuse("state", arm, str(error))
            return
        self._filter.offer_state(state, time.monotonic_ns())

    def _on_fault(self, arm: str, msg: String) -> None:
        self._robot_faults[arm] = msg.data

    def _on_policy(self, arm: str, msg: TwistStamped) -> None:
        self._offer(self._joined.add(topics.policy(arm), stamp_ns_of(msg.header), msg))

    def _on_policy_gripper(self, arm: str, msg: JointState) -> None:
        opening = vector_from_msg(msg)
        value = float(opening[0]) if opening.shape == (1,) else np.nan
        self._offer(self._joined.add(topics.policy_gripper(arm), stamp_ns_of(msg.header), value))

    def _offer(self, parts: Mapping[str, Any] | None) -> None:
        """The commands of all arms, once all of one stamp are there."""
        if parts is not None:
            commands = [self._command(arm, parts) for arm in self._arms.values()]
            self._filter.offer(commands, time.monotonic_ns())

    @staticmethod
    def _command(arm: RunArm, parts: Mapping[str, Any]) -> Command:
        """A negative opening is no wish; NaN and anything above 1 is refused by the filter."""
        msg, gripper = parts[topics.policy(arm.name)], parts.get(topics.policy_gripper(arm.name))
        frames = {arm.robot.tcp_frame: "tcp", arm.robot.base_frame: "base"}
        return Command(
            arm=arm.name,
            twist=twist_from_msg(msg),
            frame=frames.get(msg.header.frame_id, msg.header.frame_id),
            gripper=None if gripper is None or gripper < 0.0 else gripper,
            stamp_ns=stamp_ns_of(msg.header),
            source=Source.POLICY,
        )

    def _on_teleop(self, arm: str, msg: Joy) -> None:
        try:
            sample = teleop_from_msg(msg)
        except SpecError as error:
            self._filter.refuse("teleop", arm, str(error))
            return
        self._filter.offer_teleop(arm, sample, time.monotonic_ns())

    def _on_events(self, msg: Joy) -> None:
        """Keys of the person. Success, failure and discard are the actor's business."""
        events, device, now_ns = events_from_msg(msg), msg.header.frame_id, time.monotonic_ns()
        if "stop" in events:
            self._filter.stop("stop pressed", who=device)
        if "hold" in events:
            self._filter.hold(f"hold pressed on {device}")
        if "arm" in events:
            refusal = self._filter.resume(now_ns) if self._filter.mode is Mode.HOLD else self._arm_filter(now_ns)
            if refusal:
                self.get_logger().warning(f"arm on {device} refused: {refusal}")
        self._say_mode()

    def _arm_filter(self, now_ns: int) -> str:
        return (
            self._filter.arm(now_ns) if self.active else f"safety is {self.stage}, must be active to arm; activate it"
        )

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        for arm, decision in self._filter.decide(now_ns).items():
            self._drivers[arm] = decision.source
            self._outputs[arm].publish(decision)
        self._say_mode()

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


def main() -> int:
    """Entry point of the process."""
    return run_node("safety", SafetyNode)


if __name__ == "__main__":
    sys.exit(main())
