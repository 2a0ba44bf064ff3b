"""The test's own node in a cell: it remembers every command that reached the robot, and plays policy, hand, button."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.executors import Executor
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, Header, String
from std_srvs.srv import Trigger

from robot_stack.control.audit.replay_checker import (
    AppliedTwist,
    LoggedTick,
    Violation,
    check_applied,
    check_log,
    safe_after_s,
)
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, StackNode
from robot_stack.nodes.conversion import (
    decision_from_msg,
    events_to_msg,
    fault_from_msg,
    frame_of_session,
    header_of,
    stamp_ns_of,
    state_from_msg,
    teleop_to_msg,
    twist_from_msg,
    twist_to_msg,
)
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, STATE
from robot_stack.types.command import MOVING_MODES, Mode
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import TeleopSample
from robot_stack.workcell.command_log import RecordedLog
from tests.nodes.cell_rig import wait_until

MS = 1_000_000
POLICY_HZ, HAND_HZ = 20.0, 50.0
EVIDENCE = QoSProfile(depth=2000, reliability=ReliabilityPolicy.RELIABLE)
"""Of what the gaps are measured in: however long this process takes to read a message, none is lost meanwhile."""


class FaultSink:
    """Joins a cell of one arm for as long as its context is open; the lists grow in a thread of their own."""

    def __init__(self, namespace: str, arm: str, limits: SafetyLimits, key: WireKey) -> None:
        self.node = node = StackNode("sink", namespace, key=key)
        self.log = RecordedLog(arm=arm, limits=[(0, limits)])
        self.commands: list[tuple[int, np.ndarray]] = []
        self.banner, self.estop = "", False
        self.fault: Fault | None = None
        self._pressed_ns = 0
        self.did_ns = self.reset_ns = 0
        self.teleop: Joy | None = None
        self.diagnostics: dict[str, tuple[int, str, dict[str, str]]] = {}
        self.policy: np.ndarray | None = None
        self.policy_offset_ns, self.policy_frame = 0, "tcp"
        self.hand: np.ndarray | None = None
        self.deadman = False
        self._out: dict[str, Publisher] = {}
        self._sending = threading.Lock()
        self._arm, self._limits = arm, limits
        self._clients = {
            name: node.create_client(Trigger, topics.safety_service(name)) for name in topics.SAFETY_REQUESTS
        }
        self._subscribe()
        node.steady_timer(POLICY_HZ, self._send_policy)
        node.steady_timer(HAND_HZ, self._send_hand)
        self._stop = Future()

    def __enter__(self) -> FaultSink:
        executor: Executor = EventsExecutor()
        executor.add_node(self.node)
        self._thread = threading.Thread(target=lambda: executor.spin_until_future_complete(self._stop, FOREVER_S))
        self._thread.start()
        _before_others()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set_result(True)
        self._thread.join(5.0)
        self.node.destroy_node()

    # what is heard -----------------------------------------------------------------------------------------------
    @property
    def mode(self) -> Mode:
        """By the newest decision."""
        return self.log.decisions[-1].mode if self.log.decisions else Mode.DISARMED

    @property
    def now_ns(self) -> int:
        """Stamp of the newest decision."""
        return self.log.decisions[-1].command.stamp_ns if self.log.decisions else 0

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = 5.0) -> None:
        """Wait for it, and say what did not come."""
        wait_until(condition, timeout_s, what, lambda: f"mode is {self.mode}, {self.banner}")

    def until_stamp(self, stamp_ns: int) -> None:
        """Until decisions are newer than that."""
        self.until(lambda: self.now_ns > stamp_ns, "newer decisions")

    def mark(self) -> int:
        """Where the log stands, for `ticks`."""
        return len(self.log.decisions)

    def ticks(self, since: int = 0) -> list[LoggedTick]:
        """Decisions from a mark on, each with the state it was based on."""
        return self.log.ticks()[since:]

    def violations(self) -> list[Violation]:
        """Of everything that was ever heard."""
        ticks = self.log.ticks()
        return [*check_log(ticks, self._limits), *check_applied(list(self.log.applied), ticks, self._limits)]

    def safe_after_s(self, fault_ns: int, *, watched_s: float = 0.35) -> float:
        """Seconds from a fault to zero commands that last for the rest of the time watched."""
        self.until_stamp(fault_ns + round(watched_s * 1e9))
        return safe_after_s([t for t in self.ticks() if t.stamp_ns <= fault_ns + watched_s * 1e9], fault_ns)

    def mode_after_s(self, fault_ns: int, mode: Mode, timeout_s: float = 2.0) -> float:
        """Seconds from a fault to the first decision in that mode."""

        def first() -> int | None:
            newest = reversed(self.log.decisions)
            found = [d.command.stamp_ns for d in newest if d.command.stamp_ns >= fault_ns and d.mode is mode]
            return min(found, default=None)

        self.until(first, f"mode {mode}", timeout_s)
        stamp_ns = first()
        assert stamp_ns is not None
        return (stamp_ns - fault_ns) / 1e9

    def moving(self) -> bool:
        """By the newest decision."""
        return bool(self.log.decisions) and float(np.abs(self.log.decisions[-1].command.twist).max()) > 1e-4

    def driven(self) -> bool:
        """The same, while an operator resumes at once: a sender before this one has its stream for another second."""
        if self.mode is Mode.HOLD:
            self.ask("resume")
        return self.moving()

    def held_for(self, kind: FaultKind, doing: Callable[[], object] = lambda: None) -> None:
        """Wait for HOLD for that fault of the arm; one for a machine that stalled before it is resumed meanwhile."""

        def held() -> bool:
            doing()
            if self.fault is None and self.mode is Mode.HOLD:
                self.ask("resume")
            return self.fault is not None and self.fault.kind is kind and self.mode is Mode.HOLD

        self.until(held, f"HOLD for {kind}")

    def refused_for(self, words: str, doing: Callable[[], object] = lambda: None) -> None:
        """Wait until a HOLD is for that; what the banner of an earlier HOLD hides is told to whoever resumes it."""

        def refused() -> bool:
            doing()
            return self.mode is Mode.HOLD and words in self.ask("resume")

        self.until(refused, "the reason")

    def said(self, task: str, words: str) -> bool:
        """Whether the newest diagnosis of that name has those words."""
        return words in self.diagnostics.get(task, (0, "", {}))[1]

    # what is done ------------------------------------------------------------------------------------------------
    def ask(self, name: str, timeout_s: float = 3.0) -> str:
        """One of the safety requests; returns why it was refused, or ""."""
        client, answered = self._clients[name], threading.Event()
        assert client.wait_for_service(timeout_s), f"safety/{name} is not offered"
        future = client.call_async(Trigger.Request())
        future.add_done_callback(lambda _: answered.set())
        assert answered.wait(timeout_s), f"safety/{name} is not answered"
        answer = future.result()
        return "" if answer.success else answer.message

    def ready(self) -> None:
        """An operator brings the cell to READY, whatever was before; nobody sends anything."""
        self.quiet()
        deadline_s = time.monotonic() + 8.0
        refusal = ""
        while self.mode is not Mode.READY:
            assert time.monotonic() < deadline_s, f"not READY: {refusal} ({self.banner})"
            step = {Mode.STOP: "clear_stop", Mode.DISARMED: "arm", Mode.HOLD: "resume"}.get(self.mode, "end_episode")
            refusal = self.ask(step)
            if step == "resume":
                self.ask("end_episode")
            self.until_stamp(self.now_ns + 20 * MS)

    def drive(self, twist: list[float], *, demo: bool = False) -> None:
        """An episode in which the policy of this node drives, or in a demo its hand."""
        self.ready()
        if demo:
            self.out(Joy, topics.teleop(self._arm))
            self.hand, self.deadman = np.zeros(6), False
            self.until_stamp(self.now_ns + 100 * MS)
            assert self.ask("start_demo") == ""
            self.hand, self.deadman = np.array(twist), True
        else:
            self.out(TwistStamped, topics.policy(self._arm))
            self.policy = np.array(twist)
            self.start()
        self.until(self.driven, "motion")

    def home(self) -> None:
        """The simulated arm jumps back to where it started; not while somebody drives, for no command has moved it."""
        self.quiet()
        self.until(lambda: self.mode not in MOVING_MODES and not self.moving(), "the end of the motion")
        out = self.out(Header, topics.RESET_REQUEST)
        asked_ns = time.monotonic_ns()
        out.publish(header_of(asked_ns, "0"))
        self.until(lambda: self.reset_ns > asked_ns, "the reset")

    def start(self) -> None:
        """An episode of the policy; a HOLD that came between is resumed first."""

        def started() -> bool:
            refusal = self.ask("start_policy")
            if "HOLD" in refusal:
                self.ask("resume")
            return refusal == ""

        self.until(started, "an episode")

    def quiet(self) -> None:
        """Nobody of this node sends any more, and its publishers are gone, so that others may send."""
        with self._sending:
            self.policy, self.hand, self.deadman, self.teleop = None, None, False, None
            self.policy_offset_ns, self.policy_frame = 0, "tcp"
            for topic in (topics.policy(self._arm), topics.teleop(self._arm)):
                self.drop(topic)

    def drop(self, topic: str) -> None:
        """The publisher of a topic leaves, if there is one."""
        publisher = self._out.pop(topic, None)
        if publisher is not None:
            self.node.destroy_publisher(publisher)

    def send_twist(self, twist: Any, *, stamp_ns: int | None = None, frame: str = "tcp", session: str = "sink") -> None:
        """One message of a policy."""
        stamp_ns = time.monotonic_ns() + self.policy_offset_ns if stamp_ns is None else stamp_ns
        message = twist_to_msg(twist, max(0, stamp_ns), frame_of_session(frame, session))
        self.out(TwistStamped, topics.policy(self._arm)).publish(message)

    def press(self, *events: str) -> int:
        """Keys of an operator; returns when."""
        out, self._pressed_ns = self.out(Joy, topics.EVENTS, EVERY), max(time.monotonic_ns(), self._pressed_ns + 1)
        out.publish(self.node.sealer.seal(topics.EVENTS, events_to_msg(events, self._pressed_ns, "keyboard")))
        return self._pressed_ns

    def button(self, pressed: bool, topic: str = topics.STOP_INPUT) -> int:
        """The wired stop; returns when."""
        now_ns = time.monotonic_ns()
        self.out(Bool, topic, EVERY).publish(Bool(data=pressed))
        return now_ns

    def order(self, who: str, **order: object) -> None:
        """Tell one of the processes of this folder what to do."""
        profile = EVERY if who == "robot" else LATCHED
        self.out(String, f"rig/{who}", profile).publish(String(data=json.dumps(order)))

    def order_robot(self, **order: object) -> int:
        """Tell the robot what to feel; returns when it did."""
        before_ns, again_s = self.did_ns, 0.0

        def done() -> bool:
            nonlocal again_s
            if time.monotonic() >= again_s:  # a robot that has just joined may hear before it is heard, or after
                again_s = time.monotonic() + 1.0
                self.order("robot", **order)
            return self.did_ns > before_ns

        self.until(done, "answer of the robot", 10.0)
        return self.did_ns

    def out(self, kind: type, topic: str, profile: Any = NEWEST) -> Publisher:
        """A publisher of this node that somebody listens to."""
        if topic not in self._out:
            publisher = self.node.create_publisher(kind, topic, profile)
            self._out[topic] = publisher
            self.until(lambda: publisher.get_subscription_count() > 0, f"listener of {topic}", 60.0)
        return self._out[topic]

    @contextmanager
    def not_hearing_states(self) -> Iterator[None]:
        """No states come for so long."""
        self.node.destroy_subscription(self._states)
        try:
            yield
        finally:
            self._listen_to_states()

    # callbacks ---------------------------------------------------------------------------------------------------
    def _subscribe(self) -> None:
        listen = self.node.create_subscription
        log = self.log
        listen(
            TwistStamped, topics.command(self._arm),
            lambda m: self.commands.append((stamp_ns_of(m.header), twist_from_msg(m))), EVIDENCE,
        )  # fmt: skip
        listen(
            TwistStamped, topics.applied(self._arm),
            lambda m: log.applied.append(AppliedTwist(stamp_ns=stamp_ns_of(m.header), twist=twist_from_msg(m))),
            EVIDENCE,
        )  # fmt: skip
        listen(Joy, topics.label(self._arm), lambda m: log.decisions.append(decision_from_msg(m, self._arm)), EVIDENCE)
        self._listen_to_states()
        listen(String, topics.MODE, lambda m: setattr(self, "banner", m.data), LATCHED)
        listen(Bool, topics.ESTOP, lambda m: setattr(self, "estop", m.data), LATCHED)
        listen(DiagnosticArray, topics.fault(self._arm), self._on_fault, LATCHED)
        listen(Header, topics.RESET_DONE, lambda m: setattr(self, "reset_ns", stamp_ns_of(m)), LATCHED)
        listen(Joy, topics.teleop(self._arm), lambda m: setattr(self, "teleop", m), STATE)
        listen(Header, "rig/robot_did", lambda m: setattr(self, "did_ns", stamp_ns_of(m)), EVERY)
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, STATE)

    def _listen_to_states(self) -> None:
        self._states = self.node.create_subscription(JointState, topics.state(self._arm), self._on_state, EVIDENCE)

    def _on_state(self, msg: JointState) -> None:
        """Of the robot process, not of a stranger."""
        if self.node.sealer.sender(topics.state(self._arm), msg) is not None:
            self.log.states.append(state_from_msg(msg, self._arm, self.fault))

    def _on_fault(self, msg: DiagnosticArray) -> None:
        if self.node.sealer.sender(topics.fault(self._arm), msg) is not None:
            self.fault = fault_from_msg(msg)

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status:
            values = {pair.key: pair.value for pair in status.values}
            self.diagnostics[status.name] = (int.from_bytes(status.level, "little"), status.message, values)

    def _send_policy(self) -> None:
        with self._sending:
            if self.policy is not None and topics.policy(self._arm) in self._out:
                self.send_twist(self.policy, frame=self.policy_frame)

    def _send_hand(self) -> None:
        with self._sending:
            if self.hand is not None and topics.teleop(self._arm) in self._out:
                stamp_ns = time.monotonic_ns()
                sample = TeleopSample(stamp_ns=stamp_ns, twist=self.hand, deadman=self.deadman)
                topic = topics.teleop(self._arm)
                self._out[topic].publish(self.node.sealer.seal(topic, teleop_to_msg(sample)))


def _before_others() -> None:
    """Whatever listens in this process: on a crowded machine no evidence may be lost. The test itself stays behind."""
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != threading.main_thread().native_id:
            with suppress(PermissionError, ProcessLookupError):
                os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))
