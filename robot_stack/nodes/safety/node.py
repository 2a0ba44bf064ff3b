"""ROS 2 face of the safety filter; decisions live in robot_stack.control.safety.cell_filter.

One process for all arms of a cell. Runs in its own process, so that it outlives a crashed actor. Publishes at `rate_hz`
also when nothing arrives: then it holds. Not a safety-rated function.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, Header
from std_srvs.srv import Trigger

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.safety.admission import FaultRecord, KeyAdmission
from robot_stack.control.safety.checks import check_age
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.publisher_guard import ABSENT_S
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    events_from_msg,
    fault_from_msg,
    frame_and_session,
    mode_to_text,
    stamp_ns_of,
    state_from_msg,
    teleop_from_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, RateMeter
from robot_stack.nodes.door import GuardedTopic
from robot_stack.nodes.parameters import settings_of
from robot_stack.nodes.qos import KEYS, LATCHED, NEWEST, SAMPLED
from robot_stack.nodes.ros_time import asleep_ns
from robot_stack.nodes.safety.limit_parameters import LimitParameters
from robot_stack.nodes.safety.stop_latch import StopLatch
from robot_stack.nodes.safety.wires import ArmOutput, PolicyCommands
from robot_stack.nodes.safety.wiring import Input, asks, problem_of_node
from robot_stack.nodes.sealed_text import SealedText
from robot_stack.nodes.sole_sender import SoleSender
from robot_stack.types.command import MOVING_MODES, Mode, Source
from robot_stack.types.finding import Level
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.workcell.build_safety import build_safety, limits_of, stop_topics

LOOK_HZ = 10.0
"""How often one topic's publishers are read from the graph."""


class SafetyNode(StackNode):
    """A ROS node that feeds messages to the filter and publishes its decisions once per tick.

    It is the only publisher of commands.
    """

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("safety", settings.namespace, key=settings.key)
        run = settings.run
        self._filter = build_safety(run, asleep_ns=asleep_ns)
        self._arms = run.arms
        self._policy = PolicyCommands(self._arms.values(), self._filter)
        self._foreign_policy = PolicyCommands(self._arms.values(), self._filter)
        self._robot_faults = {arm: FaultRecord() for arm in self._arms}
        self._keys = KeyAdmission(topics.EVENTS)
        self._stop_topics = (topics.STOP_INPUT, *stop_topics(run))
        self._drivers = dict.fromkeys(self._arms, Source.HOLD)
        self._said: tuple[Mode, Refusal | None] | None = None
        self._since = ""
        self._inputs: list[Input] = []
        self._doors: list[GuardedTopic] = []
        self._wiring: dict[str, str] = {}
        self._looked = 0
        self._latch = StopLatch((settings.options.state or settings.options.run.parent / "safety") / "stop.json")
        left = self._latch.open()
        if left:
            self._filter.stop(Refusal(kind=RefusalKind.EMERGENCY_STOP, text=left), who="before this start")
        self._meter = RateMeter(run.safety.rate_hz)
        self._outputs = {name: ArmOutput(self, arm) for name, arm in self._arms.items()}
        self._modes = SealedText(self, topics.MODE, LATCHED)
        self._estops = self.create_publisher(Bool, topics.ESTOP, LATCHED)
        self._limits = SealedText(self, topics.LIMITS, LATCHED)
        shown = settings_of(run, {"": "safety"})
        self._tightened = LimitParameters(self, self.settings, shown, limits_of(run), self._limit)
        self.show_settings(run, _settings_beside_the_limits(run))
        self._say_limits(self._tightened.limits)
        self._subscribe()
        self._serve()
        self.steady_timer(run.safety.rate_hz, self._on_tick)
        self.steady_timer(LOOK_HZ, self._look_around)

    def diagnose(self) -> list[Diagnosis]:
        """Return diagnoses of the filter, the senders it cannot hear, doubtful inputs, and the stop file."""
        said, now_ns = self._filter, time.monotonic_ns()
        drivers = ", ".join(f"{arm} {source.name}" for arm, source in self._drivers.items())
        values = {
            "drivers": drivers,
            **self._meter.values(now_ns),
            **said.counters,
            "last_rejection": said.last_rejection,
        }
        level = {Mode.STOP: Level.FAIL, Mode.HOLD: Level.WARN}.get(said.mode, Level.OK)
        unheard, doubtful, forgetful = self._unheard, said.warning(now_ns) or said.felt_at_rest(), self._latch.error
        return [
            Diagnosis(task="filter", level=level, message=self._banner(), values=values),
            Diagnosis(task="wiring", level=Level.FAIL if unheard else Level.OK, message=str(unheard or "ok")),
            Diagnosis(task="inputs", level=Level.WARN if doubtful else Level.OK, message=str(doubtful or "ok")),
            Diagnosis(task="stop file", level=Level.FAIL if forgetful else Level.OK, message=forgetful or "ok"),
        ]

    def deactivate(self) -> None:
        """Disarm the cell and send every arm a last command: zero."""
        self._filter.disarm()
        for output in self._outputs.values():
            output.stand_still(self._filter.mode)
        self._say_mode()

    def safe_stop(self, reason: str) -> None:
        """Hold the cell and send every arm a last command, zero; the robot's own watchdog covers the rest."""
        ending = Refusal(kind=RefusalKind.ENDING, text=f"safety process ends: {reason}")
        self.get_logger().info(ending.text)
        self._filter.hold(ending)
        for output in self._outputs.values():
            output.stand_still(self._filter.mode)
        self._keep_stop()
        self._latch.wait()
        self._say_mode()

    def _subscribe(self) -> None:
        for arm in self._arms:
            self._listen(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED, arm, needed=True)
            self._listen(DiagnosticArray, topics.fault(arm), partial(self._on_fault, arm), LATCHED, arm, needed=True)
            self._listen(TwistStamped, topics.policy(arm), partial(self._policy.take, arm), NEWEST, arm)
            self._listen(Joy, topics.teleop(arm), partial(self._on_teleop, arm), NEWEST, arm)
            topic = topics.foreign_policy(arm)
            foreign = self._of_one(topic, partial(self._foreign_policy.take, arm))
            self._listen(TwistStamped, topic, foreign, NEWEST, arm)
        for arm in self._policy.grippers:
            self._listen(JointState, topics.policy_gripper(arm), partial(self._policy.take_gripper, arm), NEWEST, arm)
            topic = topics.foreign_policy_gripper(arm)
            foreign_grip = self._of_one(topic, partial(self._foreign_policy.take_gripper, arm))
            self._listen(JointState, topic, foreign_grip, NEWEST, arm)
        self._listen(Joy, topics.EVENTS, self._on_events, KEYS, single=False)
        self._listen(Header, topics.OPERATOR, self._on_operator, NEWEST)
        for topic in self._stop_topics:
            heard = partial(self._on_stop_input, topic)
            self._listen(Bool, topic, heard, KEYS, needed=topic != topics.STOP_INPUT)
            quiet = SubscriptionEventCallbacks(use_default_callbacks=False)  # for one that latched before this start
            refused = self._refuse_of("stop_input")
            self._doors.append(GuardedTopic(self, Bool, topic, heard, LATCHED, refused, events=quiet))

    def _of_one(self, topic: str, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a callback that takes a message of somebody else's policy; two of them hold the cell."""
        sender = SoleSender(self, topic)

        def heard(msg: Any) -> None:
            two = sender.refusal(time.monotonic_ns())
            if two is None:
                take(msg)
            else:
                self._filter.hold(two)

        return heard

    def _listen(
        self,
        kind: type,
        topic: str,
        heard: Callable,
        profile: QoSProfile,
        arm: str = "",
        *,
        single: bool = True,
        needed: bool = False,
    ) -> None:
        stream = topic.removeprefix(f"{topics.WIRE}/").removeprefix(f"{arm}/").split("/")[0]
        self._doors.append(GuardedTopic(self, kind, topic, heard, profile, self._refuse_of(stream, arm)))
        self._inputs.append(Input(topic=topic, asked=asks(self, kind, profile), single=single, needed=needed))

    def _refuse_of(self, stream: str, arm: str = "") -> Callable[[Refusal], None]:
        """Return a callback that counts what cannot be read of a stream; several in a row hold."""
        name = arm or next(iter(self._arms))
        return lambda refusal: self._filter.refuse(stream, name, refusal, time.monotonic_ns())

    def _serve(self) -> None:
        """Offer one Trigger service per request; the answer says why it was refused."""
        said = self._filter

        def granted(action: Callable[[], None]) -> Callable[[int], Refusal | None]:
            def request(_: int) -> Refusal | None:
                action()
                return None

            return request

        asked = Refusal(kind=RefusalKind.SERVICE, text="hold requested by service")
        stop = Refusal(kind=RefusalKind.SERVICE, text="stop requested")
        requests: dict[str, Callable[[int], Refusal | None]] = {
            "arm": self._arm_cell,
            "disarm": granted(said.disarm),
            "start_policy": lambda now_ns: said.start(now_ns, policy_expected=True),
            "start_demo": lambda now_ns: said.start(now_ns, policy_expected=False),
            "end_episode": granted(said.end_episode),
            "hold": granted(lambda: said.hold(asked)),
            "resume": said.resume,
            "stop": granted(lambda: said.stop(stop, who="service")),
            "clear_stop": self._clear_stop,
        }
        for name in topics.SAFETY_REQUESTS:
            self.create_service(Trigger, topics.safety_service(name), self._answer(name, requests[name]))

    def _look_around(self) -> None:
        """Read the publishers of one input from the graph, for what matters before arming.

        All together take two periods of a busy machine. While somebody drives, the streams themselves say it.
        """
        looked_at = self._inputs[self._looked % len(self._inputs)]
        self._looked += 1
        driving = self._filter.mode in MOVING_MODES
        self._wiring[looked_at.topic] = "" if driving else problem_of_node(self, looked_at)

    @property
    def _unheard(self) -> Refusal | None:
        """Return what keeps the cell from hearing a sender, as last looked at."""
        problem = next((problem for problem in self._wiring.values() if problem), "")
        return Refusal(kind=RefusalKind.WIRING, text=problem) if problem else None

    def _arm_cell(self, now_ns: int) -> Refusal | None:
        if not self.active:
            text = f"safety is {self.stage}, must be active to arm; activate it"
            return Refusal(kind=RefusalKind.NOT_ACTIVE, text=text)
        if self._latch.error:
            return Refusal(kind=RefusalKind.DISK, text=self._latch.error)
        for looked_at in self._inputs:
            self._wiring[looked_at.topic] = problem_of_node(self, looked_at)
        felt = self._filter.felt_at_rest()
        refusal = self._unheard or self._filter.arm(now_ns)
        if felt and not refusal:
            self.get_logger().warning(f"armed, but {felt}")
        return refusal

    def _clear_stop(self, now_ns: int) -> Refusal | None:
        """Clear a STOP, but only together with its file: what a restart would bring back is not over."""
        refusal = self._filter.clear_stop(now_ns)
        if not refusal:
            refusal = self._latch.clear()
            if refusal:
                self._filter.stop(refusal, who="safety")
        return refusal

    def _limit(self, limits: Mapping[str, SafetyLimits]) -> Refusal | None:
        refusal = self._filter.limit(limits)
        if not refusal:
            self._say_limits(limits)
        return refusal

    def _say_limits(self, limits: Mapping[str, SafetyLimits]) -> None:
        self._limits.say(json.dumps({arm: asdict(each) for arm, each in limits.items()}))

    def _answer(
        self, name: str, request: Callable[[int], Refusal | None]
    ) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def respond(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            refusal = request(time.monotonic_ns())
            if refusal:
                self.get_logger().warning(f"{name} refused: {refusal}")
            self._say_mode()
            response.success, response.message = refusal is None, str(refusal or self._filter.mode)
            return response

        return respond

    def _on_state(self, arm: str, msg: JointState) -> None:
        session = self.sealer.sender(topics.state(arm), msg)
        state = state_from_msg(msg, arm, self._robot_faults[arm].fault)
        self._filter.offer_state(state, time.monotonic_ns(), session=session)

    def _on_fault(self, arm: str, msg: DiagnosticArray) -> None:
        """Take in what the robot process reports."""
        topic, now_ns = topics.fault(arm), time.monotonic_ns()
        if self.sealer.sender(topic, msg) is None:
            text = f"{topic} is of no process of this run, must be; stop what else sends there"
            self._filter.refuse("fault", arm, Refusal(kind=RefusalKind.FOREIGN, text=text), now_ns)
        else:
            self._robot_faults[arm].hear(fault_from_msg(msg), stamp_ns_of(msg.header), now_ns)

    def _on_teleop(self, arm: str, msg: Joy) -> None:
        sample = teleop_from_msg(msg, self.sealer.sender(topics.teleop(arm), msg))
        self._filter.offer_teleop(arm, sample, time.monotonic_ns())

    def _on_events(self, msg: Joy) -> None:
        """Obey the operator's keys. Success, failure and discard are the actor's business."""
        session, now_ns = self.sealer.sender(topics.EVENTS, msg), time.monotonic_ns()
        events, refusal = self._keys.counted(events_from_msg(msg), session, stamp_ns_of(msg.header), now_ns)
        device, _ = frame_and_session(msg.header.frame_id)
        self._filter.obey_key_stops(events, device if session else "a stranger's topic")
        if refusal is None and "arm" in events:
            refusal = self._filter.resume(now_ns) if self._filter.mode is Mode.HOLD else self._arm_cell(now_ns)
        if refusal:
            self.get_logger().warning(f"key refused: {refusal}", throttle_duration_sec=1.0)
        self._say_mode()

    def _on_stop_input(self, topic: str, msg: Bool) -> None:
        self._filter.offer_stop_input(topic, msg.data, time.monotonic_ns())

    def _on_operator(self, msg: Header) -> None:
        now_ns = time.monotonic_ns()
        late = check_age(topics.OPERATOR, stamp_ns_of(msg), now_ns, ABSENT_S)
        if self.sealer.sender(topics.OPERATOR, msg) is not None and late is None:
            self._filter.offer_operator(now_ns)

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        for door in self._doors:
            door.tend(now_ns)
        for arm, decision in self._filter.decide(now_ns).items():
            self._drivers[arm] = decision.source
            self._outputs[arm].publish(decision)
        self._say_mode()

    def _say_mode(self) -> None:
        """Announce a change of mode with who, why and since when; a STOP only once it is in its file."""
        now = (self._filter.mode, self._filter.reason)
        if now == self._said:
            return
        self._keep_stop()
        if now[0] is Mode.STOP and not self._latch.settled():
            return
        was, self._said, self._since = self._said, now, time.strftime("%H:%M:%S")
        self._modes.say(self._banner())
        if was is None or (was[0] is Mode.STOP) != (now[0] is Mode.STOP):
            self._estops.publish(Bool(data=now[0] is Mode.STOP))
        self.get_logger().info(f"{was[0] if was else 'start'} -> {self._banner()}")
        self.publish_diagnostics()

    def _keep_stop(self) -> None:
        """Begin to write a STOP to its file, unless that has begun."""
        if self._filter.mode is Mode.STOP and not self._latch.kept:
            self._latch.keep(str(self._filter.reason))

    def _banner(self) -> str:
        mode, reason = self._filter.mode, self._filter.reason
        return mode_to_text(mode, replace(reason, text=f"{reason} (since {self._since})") if reason else None)


def _settings_beside_the_limits(run: ResolvedRun) -> dict[str, str]:
    """Return what else decides when the cell holds: parameter -> key of the run."""
    one = not run.cell.arms
    return {
        **{f"{arm}.workspace": "cell.workspace" if one else f"cell.arms.{arm}.workspace" for arm in run.robots},
        "stop_inputs": "cell.stop_inputs",
        "teleop_silence_s": "cell.teleop_silence_s",
        "operator_required": "run.operator_required",
    }


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, help="folder that keeps a STOP; default: safety/ beside the run file")


def main() -> int:
    """Run the safety process and return its exit code."""
    return run_node("safety", SafetyNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
