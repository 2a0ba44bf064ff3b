"""The actor's ROS node: keeps what arrives, hands it over under a lock, and waits for it with a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.client import Client
from sensor_msgs.msg import Image, JointState, Joy
from std_msgs.msg import Bool, Header
from std_srvs.srv import Trigger

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.executed import ExecutedAccumulator
from robot_stack.control.safety.admission import OLDEST_VERDICT_S, FaultRecord, KeyAdmission, OnceAdmission
from robot_stack.control.safety.seal import WireKey
from robot_stack.control.safety.tool_turns import TurnCounter
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import (
    decision_from_msg,
    events_from_msg,
    fault_from_msg,
    image_from_msg,
    mode_from_text,
    stamp_ns_of,
    state_from_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, SAMPLED
from robot_stack.nodes.sealed_text import SealedText, listen_to_text
from robot_stack.nodes.state_admission import StateAdmission
from robot_stack.sensing.sync import Synchroniser, SyncLimits
from robot_stack.types.command import Decision, Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.finding import Level
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_safety import limits_of

OLDEST_LABEL_S = 1.0
"""As many labels as wait to be heard; one of a replayed bag would be recorded as what the arm does now."""
SILENT = Refusal(kind=RefusalKind.WIRING, text="the safety process is silent")


class CellLink(StackNode):
    """The actor's node, which keeps what was last heard of the cell.

    Callbacks run in the executor's thread; read it inside `locked`.
    """

    def __init__(self, run: ResolvedRun, namespace: str, key: WireKey) -> None:
        super().__init__("actor", namespace, key=key)
        self.show_settings(run, {"": "run", "task": "task"})
        arms = list(run.robots)
        self.sync = Synchroniser(list(run.cameras), arms, SyncLimits.of(run))
        self.executed = {arm: ExecutedAccumulator() for arm in arms}
        self.decisions: dict[str, Decision] = {}
        self.mode: tuple[Mode, Refusal | None] = (Mode.DISARMED, SILENT)
        self.events: list[str] = []
        self.stamps_ns: dict[str, int] = dict.fromkeys((*run.cameras, *map(topics.state, arms)), 0)
        self.reset_done: tuple[int, str] = (0, "")
        self.truth: bool | None = None
        self.states: dict[str, RobotState] = {}
        self.turns = {arm: TurnCounter(limits.yaw_zero_xyzw) for arm, limits in limits_of(run).items()}
        """Of each arm's tool about its own axis, counted as the safety process does."""
        self.figures: Callable[[], Mapping[str, object]] = dict
        """How the one who acts is doing, for /diagnostics."""
        self._faults = {arm: FaultRecord() for arm in arms}
        self._admitted = {arm: StateAdmission(self.sealer, arm) for arm in arms}
        self._keys = KeyAdmission(topics.EVENTS, OLDEST_VERDICT_S)
        self._labels = {arm: OnceAdmission("label", topics.label(arm), OLDEST_LABEL_S) for arm in arms}
        self._changed = threading.Condition()
        self._refused: dict[str, str] = {}
        self._subscribe(list(run.cameras), arms)
        self.policy = {arm: self.create_lifecycle_publisher(TwistStamped, topics.policy(arm), NEWEST) for arm in arms}
        self.policy_gripper = {
            arm: self.create_lifecycle_publisher(JointState, topics.policy_gripper(arm), NEWEST) for arm in arms
        }
        self.status = SealedText(self, topics.STATUS, LATCHED)
        self.claims = SealedText(self, topics.CLAIM, EVERY)
        self.prompts = SealedText(self, topics.PROMPT, LATCHED)
        self.help = SealedText(self, topics.HELP, LATCHED)
        self.reset_request = self.create_publisher(Header, topics.RESET_REQUEST, NEWEST)
        self.requests: dict[str, Client] = {
            name: self.create_client(Trigger, topics.safety_service(name))
            for name in ("start_policy", "start_demo", "end_episode", "hold")
        }

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold back all callbacks inside a `with` block; keep it short."""
        with self._changed:
            yield

    def wake(self) -> None:
        """Wake whoever waits, to look at their condition again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition, judged after each message, and return whether it came true in time."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def diagnose(self) -> list[Diagnosis]:
        """Return diagnoses of what arrives, with why it cannot be used if so, and of the policy."""
        with self._changed:
            problem = self.sync.problem(time.monotonic_ns())
            values = {**self.sync.counters, **self._refused}
        level, figures = Level.WARN if problem else Level.OK, self.figures()
        observation = Diagnosis(task="observation", level=level, message=problem or "ok", values=values)
        return [observation, *([Diagnosis(task="policy", values=figures)] if figures else [])]

    @property
    def heard(self) -> bool:
        """Return whether the safety process has decided about every arm."""
        return len(self.decisions) == len(self.executed)

    def _subscribe(self, cameras: list[str], arms: list[str]) -> None:
        for camera in cameras:
            self.create_subscription(Image, topics.observation(camera), partial(self._on_image, camera), SAMPLED)
        for arm in arms:
            self.create_subscription(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED)
            self.create_subscription(DiagnosticArray, topics.fault(arm), partial(self._on_fault, arm), LATCHED)
            self.create_subscription(Joy, topics.label(arm), partial(self._on_label, arm), EVERY)
        refused = partial(self._refused.__setitem__, topics.MODE)
        listen_to_text(self, topics.MODE, self._on_mode, refused=refused)
        self.create_subscription(Joy, topics.EVENTS, self._on_events, EVERY)
        self.create_subscription(Header, topics.RESET_DONE, self._on_reset_done, LATCHED)
        self.create_subscription(Bool, topics.TRUTH, self._on_truth, LATCHED)

    def _on_image(self, camera: str, msg: Image) -> None:
        stamp_ns = stamp_ns_of(msg.header)
        try:
            image = image_from_msg(msg)
        except SpecError as error:
            self._refused[camera] = str(error)
            return
        with self._changed:
            self.sync.offer_frame(camera, image, stamp_ns, time.monotonic_ns())
            self.stamps_ns[camera] = stamp_ns
            self._changed.notify_all()

    def _on_state(self, arm: str, msg: JointState) -> None:
        refusal = self._admitted[arm].refusal(msg)
        if refusal is not None:
            self._refused[topics.state(arm)] = str(refusal)
            return
        try:
            state = state_from_msg(msg, arm, self._faults[arm].fault)
        except SpecError as error:
            self._refused[topics.state(arm)] = str(error)
            return
        with self._changed:
            self.sync.offer_state(state, time.monotonic_ns())
            self.stamps_ns[topics.state(arm)] = state.stamp_ns
            self.states[arm] = state
            self.turns[arm].watch(state.T_base_tcp.quaternion_xyzw)
            self._changed.notify_all()

    def _on_fault(self, arm: str, msg: DiagnosticArray) -> None:
        if self.sealer.sender(topics.fault(arm), msg) is None:
            return
        try:
            self._faults[arm].hear(fault_from_msg(msg), stamp_ns_of(msg.header), time.monotonic_ns())
        except SpecError as error:
            self._refused[topics.fault(arm)] = str(error)

    def _on_label(self, arm: str, msg: Joy) -> None:
        topic = topics.label(arm)
        refusal = self._labels[arm].refusal(
            self.sealer.sender(topic, msg), stamp_ns_of(msg.header), time.monotonic_ns()
        )
        if refusal is not None:
            self._refused[topic] = str(refusal)
            return
        try:
            decision = decision_from_msg(msg, arm)
        except (SpecError, ValueError, IndexError) as error:
            self._refused[topic] = str(error)
            return
        with self._changed:
            self.executed[arm].add(decision)
            self.decisions[arm] = decision
            self._changed.notify_all()

    def _on_mode(self, text: str) -> None:
        mode = mode_from_text(text)
        with self._changed:
            self.mode = mode
            self._changed.notify_all()

    def _on_events(self, msg: Joy) -> None:
        session, now_ns = self.sealer.sender(topics.EVENTS, msg), time.monotonic_ns()
        events, refusal = self._keys.counted(events_from_msg(msg), session, stamp_ns_of(msg.header), now_ns)
        if refusal is not None:
            self._refused[topics.EVENTS] = str(refusal)
        with self._changed:
            self.events += events
            self._changed.notify_all()

    def _on_reset_done(self, msg: Header) -> None:
        with self._changed:
            self.reset_done = (stamp_ns_of(msg), msg.frame_id)
            self._changed.notify_all()

    def _on_truth(self, msg: Bool) -> None:
        with self._changed:
            self.truth = msg.data
