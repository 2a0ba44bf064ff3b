"""ROS 2 face of the safety filter; decisions live in robot_stack.control.safety.

One process for all arms of a cell. Runs in its own process, so that it outlives a crashed actor. Publishes at `rate_hz`
also when nothing arrives: then it holds. Not a safety-rated function.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from geometry_msgs.msg import TwistStamped
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, Header, String
from std_srvs.srv import Trigger

from robot_stack.control.limits import SafetyLimits
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    events_from_msg,
    mode_to_text,
    state_from_msg,
    teleop_from_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, Level, RateMeter
from robot_stack.nodes.limit_parameters import LimitParameters
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, SAMPLED
from robot_stack.nodes.safety_wires import ArmOutput, PolicyCommands
from robot_stack.nodes.stop_latch import StopLatch
from robot_stack.nodes.wiring import Input, asks, problem_of_node
from robot_stack.run.build_safety import build_safety, limits_of
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import SpecError


class SafetyNode(StackNode):
    """Feeds messages to the filter and publishes its decisions, once per tick. The only publisher of commands."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("safety", settings.namespace, parameter_services=True)
        run = settings.run
        self._filter = build_safety(run)
        self._arms = run.arms
        self._policy = PolicyCommands(self._arms.values(), self._filter)
        self._robot_faults = dict.fromkeys(self._arms, "")
        self._drivers = dict.fromkeys(self._arms, Source.HOLD)
        self._said: tuple[Mode, str] | None = None
        self._since = ""
        self._inputs: list[Input] = []
        self._unheard = ""
        self._latch = StopLatch((settings.options.state or settings.options.run.parent / "safety") / "stop.json")
        left = self._latch.read()
        if left:
            self._filter.stop(left, who="before this start")
        self._meter = RateMeter(run.safety.rate_hz)
        self._outputs = {name: ArmOutput(self, arm) for name, arm in self._arms.items()}
        self._modes = self.create_publisher(String, topics.MODE, LATCHED)
        self._estops = self.create_publisher(Bool, topics.ESTOP, LATCHED)
        self._limits = self.create_publisher(String, topics.LIMITS, LATCHED)
        self._tightened = LimitParameters(self, limits_of(run), run.safety.rate_hz, self._limit)
        self._say_limits(self._tightened.limits)
        self._subscribe()
        self._serve()
        self.steady_timer(run.safety.rate_hz, self._on_tick)
        self.steady_timer(1.0, self._look_around)

    def diagnose(self) -> list[Diagnosis]:
        """Mode, who moves each arm, tick rate, all that the filter counted; whom it cannot hear; the stop file."""
        said, now_ns = self._filter, time.monotonic_ns()
        drivers = ", ".join(f"{arm} {source.name}" for arm, source in self._drivers.items())
        values = {
            "drivers": drivers,
            **self._meter.values(now_ns),
            **said.counters,
            "last_rejection": said.last_rejection,
        }
        level = {Mode.STOP: Level.ERROR, Mode.HOLD: Level.WARN}.get(said.mode, Level.OK)
        unheard, doubtful, forgetful = self._unheard, said.warning(now_ns), self._latch.error
        return [
            Diagnosis(task="filter", level=level, message=self._banner(), values=values),
            Diagnosis(task="wiring", level=Level.ERROR if unheard else Level.OK, message=unheard or "ok"),
            Diagnosis(task="inputs", level=Level.WARN if doubtful else Level.OK, message=doubtful or "ok"),
            Diagnosis(task="stop file", level=Level.ERROR if forgetful else Level.OK, message=forgetful or "ok"),
        ]

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
        self._latch.wait()
        self._say_mode()

    def _subscribe(self) -> None:
        for arm in self._arms:
            self._listen(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED, needed=True)
            self._listen(String, topics.fault(arm), partial(self._on_fault, arm), LATCHED, needed=True)
            self._listen(TwistStamped, topics.policy(arm), partial(self._policy.take, arm), NEWEST)
            self._listen(Joy, topics.teleop(arm), partial(self._on_teleop, arm), NEWEST)
        for arm in self._policy.grippers:
            self._listen(JointState, topics.policy_gripper(arm), partial(self._policy.take_gripper, arm), NEWEST)
        self._listen(Joy, topics.EVENTS, self._on_events, EVERY, single=False)
        self._listen(Header, topics.OPERATOR, self._on_operator, NEWEST)
        self._listen(Bool, topics.STOP_INPUT, self._on_stop_input, EVERY, single=False)
        quiet = SubscriptionEventCallbacks(use_default_callbacks=False)  # for a button that latched before this start
        self.create_subscription(Bool, topics.STOP_INPUT, self._on_stop_input, LATCHED, event_callbacks=quiet)

    def _listen(
        self, kind: type, topic: str, heard: Callable, profile: QoSProfile, *, single: bool = True, needed: bool = False
    ) -> None:
        self.create_subscription(kind, topic, heard, profile)
        self._inputs.append(Input(topic=topic, asked=asks(self, kind, profile), single=single, needed=needed))

    def _serve(self) -> None:
        """One Trigger service per request; the answer says why it was refused."""
        said = self._filter

        def granted(action: Callable[[], None]) -> Callable[[int], str]:
            def request(_: int) -> str:
                action()
                return ""

            return request

        requests: dict[str, Callable[[int], str]] = {
            "arm": self._arm_cell,
            "disarm": granted(said.disarm),
            "start_policy": lambda now_ns: said.start(now_ns, policy_expected=True),
            "start_demo": lambda now_ns: said.start(now_ns, policy_expected=False),
            "end_episode": granted(said.end_episode),
            "hold": granted(lambda: said.hold("hold requested by service")),
            "resume": said.resume,
            "stop": granted(lambda: said.stop("stop requested", who="service")),
            "clear_stop": self._clear_stop,
        }
        for name in topics.SAFETY_REQUESTS:
            self.create_service(Trigger, topics.safety_service(name), self._answer(name, requests[name]))

    def _look_around(self) -> None:
        """What the graph says matters before arming; while somebody drives, the streams themselves say it."""
        driving = self._filter.mode in (Mode.POLICY, Mode.HUMAN)
        self._unheard = "" if driving else problem_of_node(self, self._inputs)

    def _arm_cell(self, now_ns: int) -> str:
        if not self.active:
            return f"safety is {self.stage}, must be active to arm; activate it"
        self._look_around()
        return self._unheard or self._filter.arm(now_ns)

    def _clear_stop(self, now_ns: int) -> str:
        """Only together with its file: what a restart would bring back is not over."""
        refusal = self._filter.clear_stop(now_ns)
        if not refusal:
            refusal = self._latch.remove()
            if refusal:
                self._filter.stop(refusal, who="safety")
        return refusal

    def _limit(self, limits: Mapping[str, SafetyLimits]) -> str:
        refusal = self._filter.limit(limits)
        if not refusal:
            self._say_limits(limits)
        return refusal

    def _say_limits(self, limits: Mapping[str, SafetyLimits]) -> None:
        self._limits.publish(String(data=json.dumps({arm: asdict(each) for arm, each in limits.items()})))

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
            refusal = self._filter.resume(now_ns) if self._filter.mode is Mode.HOLD else self._arm_cell(now_ns)
            if refusal:
                self.get_logger().warning(f"arm on {device} refused: {refusal}")
        self._say_mode()

    def _on_stop_input(self, msg: Bool) -> None:
        self._filter.offer_stop_input(msg.data, time.monotonic_ns())

    def _on_operator(self, _: Header) -> None:
        self._filter.offer_operator(time.monotonic_ns())

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        for arm, decision in self._filter.decide(now_ns).items():
            self._drivers[arm] = decision.source
            self._outputs[arm].publish(decision)
        self._say_mode()

    def _say_mode(self) -> None:
        """On a change, with who, why and since when. A STOP is in its file before it is announced."""
        now = (self._filter.mode, self._filter.reason)
        if now == self._said:
            return
        if now[0] is Mode.STOP:
            if not self._latch.kept:
                self._latch.keep(now[1])
            if not self._latch.settled():
                return
        was, self._said, self._since = self._said, now, time.strftime("%H:%M:%S")
        self._modes.publish(String(data=self._banner()))
        if was is None or (was[0] is Mode.STOP) != (now[0] is Mode.STOP):
            self._estops.publish(Bool(data=now[0] is Mode.STOP))
        self.get_logger().info(f"{was[0] if was else 'start'} -> {self._banner()}")
        self.publish_diagnostics()

    def _banner(self) -> str:
        mode, reason = self._filter.mode, self._filter.reason
        return mode_to_text(mode, f"{reason} (since {self._since})" if reason else "")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, help="folder that keeps a STOP; default: safety/ beside the run file")


def main() -> int:
    """Entry point of the process."""
    return run_node("safety", SafetyNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
