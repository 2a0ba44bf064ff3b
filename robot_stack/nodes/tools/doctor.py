"""A listener to a cell for `robot-stack doctor`: what arrives, who publishes, how long a request takes.

Judging is the business of robot_stack.workcell.checkup. This node sends nothing but questions, and, if an operator
asks for it, the request to clear a stop.
"""

from __future__ import annotations

import importlib.util
import time
import zlib
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import GetState
from rclpy.node import Node
from sensor_msgs.msg import Image, JointState, Joy
from std_msgs.msg import Bool, Header, String
from std_srvs.srv import Trigger

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.drivers.first_motion import AxisVerdict
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import (
    events_from_msg,
    fault_from_msg,
    mode_from_text,
    stamp_ns_of,
    state_from_msg,
    teleop_from_msg,
)
from robot_stack.nodes.qos import EVERY, FIXED, LATCHED, SAMPLED, endpoint_of
from robot_stack.nodes.tools.first_motion import result_topic, verdicts_of
from robot_stack.nodes.tools.listening import Listening
from robot_stack.nodes.tools.safety_requests import ask
from robot_stack.sensing.still_images import StillImages
from robot_stack.teleop.page import TOPIC as PAGE_TOPIC
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.reason import Fault, Refusal
from robot_stack.types.robot import RobotState
from robot_stack.types.spec import AXES
from robot_stack.workcell.bring_up import Heard
from robot_stack.workcell.checkup.graph import TopicEnd
from robot_stack.workcell.checkup.operator import Reach
from robot_stack.workcell.checkup.streams import CameraStream, Stream

HANDSHAKE = ": handshake of "
"""In the name of a status, between the robot process and an arm."""
SAMPLES = 1000


def commands(arms: Sequence[str]) -> list[str]:
    """Return the arms' command topics, which must have one publisher each, relative to the cell."""
    kinds = (topics.command, topics.command_gripper, topics.policy, topics.policy_gripper, topics.teleop)
    return [kind(arm) for arm in arms for kind in kinds]


def may_be_empty(run: ResolvedRun) -> list[str]:
    """Return the topics, relative to the cell, that may have no publisher.

    Nobody publishes them before actor and console run, without a policy of somebody else, or for a stop that is not
    wired in.
    """
    policies = (topics.policy, topics.policy_gripper, topics.foreign_policy, topics.foreign_policy_gripper)
    own = [kind(arm) for arm in run.robots for kind in policies]
    texts = [topics.STATUS, topics.CLAIM, topics.HELP, topics.PROMPT]
    of_the_actor = [*texts, *map(topics.sealed, texts), topics.RESET_REQUEST]
    return [*own, *of_the_actor, topics.OPERATOR, PAGE_TOPIC, topics.STOP_INPUT]


@dataclass(slots=True, kw_only=True)
class ArmHeard:
    """The messages heard of one arm, and what they said.

    Attributes:
        states: Messages of its state.
        decisions: Of the safety filter's decisions about it.
        samples: Of what an operator does with it.
        state: The newest.
        fault: What its robot reports.
        twists: Of the samples.
        reaches: Axis -> how far it was moved.
        deadman: Whether it was pressed.
    """

    states: Stream = field(default_factory=Stream)
    decisions: Stream = field(default_factory=Stream)
    samples: Stream = field(default_factory=Stream)
    state: RobotState | None = None
    fault: Fault | None = None
    twists: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    reaches: dict[str, Reach] = field(default_factory=dict)
    deadman: bool = False


class DoctorNode(Node):
    """A ROS node that keeps what it hears of one cell, all in the thread that calls `listen`."""

    def __init__(self, run: ResolvedRun, namespace: str, nodes: Sequence[str]) -> None:
        super().__init__("doctor", namespace=namespace, start_parameter_services=False)
        self._nodes = tuple(nodes)
        self._digests: dict[str, int] = {}
        self._frozen_after_s = {name: camera.frozen_after_s for name, camera in run.cameras.items()}
        self._still = {name: StillImages(after_s) for name, after_s in self._frozen_after_s.items()}
        self.cameras = {name: CameraStream() for name in run.cameras}
        self.arms = {name: ArmHeard() for name in run.robots}
        self.refused: dict[str, str] = {}
        self.mode: tuple[Mode, Refusal | None] | None = None
        self.stops: list[tuple[int, bool]] = []
        self.stop_pressed_ns: int | None = None
        self.beats: dict[str, int] = {}
        self.stages: dict[str, Heard] = {}
        self.offsets_s: dict[str, float] = {}
        for name in run.cameras:
            self.create_subscription(Image, topics.observation(name), partial(self._on_image, name), SAMPLED)
        for arm in run.robots:
            self.create_subscription(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED)
            self.create_subscription(DiagnosticArray, topics.fault(arm), partial(self._on_fault, arm), LATCHED)
            self.create_subscription(Joy, topics.label(arm), partial(self._on_label, arm), EVERY)
            self.create_subscription(Joy, topics.teleop(arm), partial(self._on_teleop, arm), SAMPLED)
        self.create_subscription(Joy, topics.EVENTS, self._on_events, EVERY)
        self.create_subscription(String, topics.MODE, self._on_mode, LATCHED)
        self.create_subscription(Bool, topics.ESTOP, self._on_estop, LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, EVERY)
        for name in nodes:
            self.create_subscription(Header, f"{name}/heartbeat", partial(self._on_beat, name), SAMPLED)
            self.create_subscription(String, topics.lifecycle(name), partial(self._on_stage, name), LATCHED)
        self.frames: set[str] = set()
        if importlib.util.find_spec("tf2_msgs") is not None:  # only with an installed ROS
            self._listen_to_frames()
        self.handshakes: dict[str, dict[str, str]] = {}
        """Arm -> what its robot process says of the questions it has put to the driver."""
        self.motions: dict[str, list[AxisVerdict]] = {}
        """Arm -> what came of its first motion."""
        for arm in run.robots:
            self.create_subscription(String, result_topic(arm), partial(self._on_motion, arm), LATCHED)
        self.probe = self.create_client(GetState, "safety/get_state")
        self.requests = {
            name: self.create_client(Trigger, topics.safety_service(name))
            for name in ("arm", "start_demo", "end_episode", "disarm", "clear_stop")
        }

    def silent(self) -> list[str]:
        """Return the nodes that nothing has been heard of."""
        return [name for name in self._nodes if name not in self.beats]

    def blind(self, dead: Collection[str] = ()) -> list[str]:
        """Return the cameras that no image has come from, but for those of processes that are dead."""
        return [name for name, seen in self.cameras.items() if not seen.arrived_ns and f"camera_{name}" not in dead]

    def still(self, dead: Collection[str] = ()) -> list[str]:
        """Return the arms that no state has come from; none where their process is dead."""
        return [name for name, arm in self.arms.items() if not arm.states.arrived_ns and "robot" not in dead]

    def untold(self, dead: Collection[str] = ()) -> list[str]:
        """Return the arms whose device says nothing, but for those of processes that are dead."""
        silent = [name for name, arm in self.arms.items() if not arm.samples.arrived_ns]
        return [name for name in silent if not {"teleop", f"teleop_{name}"} & set(dead)]

    def missing(self, dead: Collection[str] = ()) -> list[str]:
        """Return what nothing has been heard of, nodes, cameras, arms and their devices, but for what is dead."""
        silent = [name for name in self.silent() if name not in dead]
        blind = [f"camera {name}" for name in self.blind(dead)]
        still = [f"state of {name}" for name in self.still(dead)]
        return [*silent, *blind, *still, *(f"teleop of {name}" for name in self.untold(dead))]

    def forget(self) -> None:
        """Begin to measure anew: what came while the cell was starting says little."""
        self.cameras = {name: CameraStream() for name in self.cameras}
        self.arms = {name: ArmHeard(state=arm.state, fault=arm.fault) for name, arm in self.arms.items()}
        self._still = {name: StillImages(after_s) for name, after_s in self._frozen_after_s.items()}
        self.beats.clear()

    def endpoints(self) -> list[TopicEnd]:
        """Return all publishers and subscriptions under the cell's namespace, but this node's own."""
        mine, found = self.get_fully_qualified_name(), []
        for topic, _ in self.get_topic_names_and_types():
            if topic.startswith(self.get_namespace() + "/"):
                ends = [(True, info) for info in self.get_publishers_info_by_topic(topic)]
                ends += [(False, info) for info in self.get_subscriptions_info_by_topic(topic)]
                for publishes, info in ends:
                    end = endpoint_of(info)
                    found.append(TopicEnd(topic=topic, publishes=publishes, node=end.node, kind=end.kind, qos=end.qos))
        return [end for end in found if end.node != mine]

    def _listen_to_frames(self) -> None:
        from tf2_msgs.msg import TFMessage

        own = {topics.optical_frame(camera) for camera in self.cameras}

        def receive(msg: TFMessage) -> None:
            for each in msg.transforms:
                if each.child_frame_id not in own:
                    self.frames |= {each.header.frame_id.lstrip("/"), each.child_frame_id.lstrip("/")}

        self.create_subscription(TFMessage, "/tf", receive, SAMPLED)
        self.create_subscription(TFMessage, "/tf_static", receive, FIXED)

    def _on_image(self, name: str, msg: Image) -> None:
        stream = self.cameras[name]
        stream.add(time.monotonic_ns(), stamp_ns_of(msg.header))
        stream.size = f"{msg.width}x{msg.height}"
        digest, still = zlib.crc32(msg.data), self._still[name]
        still.take(stamp_ns_of(msg.header), same=digest == self._digests.get(name))
        self._digests[name] = digest
        stream.frozen = str(still) if still.frozen else stream.frozen
        stream.brightness = float(np.frombuffer(msg.data, np.uint8).mean())

    def _on_state(self, arm: str, msg: JointState) -> None:
        heard = self.arms[arm]
        heard.states.add(time.monotonic_ns(), stamp_ns_of(msg.header))
        try:
            heard.state = state_from_msg(msg, arm, heard.fault)
        except SpecError as error:
            self.refused[topics.state(arm)] = str(error)

    def _on_fault(self, arm: str, msg: DiagnosticArray) -> None:
        try:
            self.arms[arm].fault = fault_from_msg(msg)
        except SpecError as error:
            self.refused[topics.fault(arm)] = str(error)

    def _on_label(self, arm: str, msg: Joy) -> None:
        self.arms[arm].decisions.add(time.monotonic_ns(), stamp_ns_of(msg.header))

    def _on_teleop(self, arm: str, msg: Joy) -> None:
        heard = self.arms[arm]
        heard.samples.add(time.monotonic_ns(), stamp_ns_of(msg.header))
        try:
            sample = teleop_from_msg(msg)
        except SpecError as error:
            self.refused[topics.teleop(arm)] = str(error)
            return
        if sample.twist.shape != (len(AXES),):
            text = f"teleop command has {len(sample.twist)} axes, must have {len(AXES)}; update its sender"
            self.refused[topics.teleop(arm)] = text
            return
        heard.deadman = heard.deadman or sample.deadman
        heard.twists.append(sample.twist)
        for axis, value in zip(AXES, sample.twist, strict=True):
            heard.reaches[axis] = heard.reaches.get(axis, Reach()).widened(float(value))

    def _on_motion(self, arm: str, msg: String) -> None:
        self.motions[arm] = verdicts_of(msg.data)

    def _on_events(self, msg: Joy) -> None:
        if "stop" in events_from_msg(msg):
            self.stop_pressed_ns = stamp_ns_of(msg.header)

    def _on_mode(self, msg: String) -> None:
        with suppress(SpecError):
            self.mode = mode_from_text(msg.data)

    def _on_estop(self, msg: Bool) -> None:
        self.stops.append((time.monotonic_ns(), msg.data))

    def _on_beat(self, name: str, _: Header) -> None:
        self.beats[name] = time.monotonic_ns()

    def _on_stage(self, name: str, msg: String) -> None:
        with suppress(SpecError):
            self.stages[name] = Heard.from_text(msg.data)

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        stamp_s = msg.header.stamp.sec + msg.header.stamp.nanosec / 1e9
        for status in msg.status:
            if status.hardware_id == self.get_namespace():
                node, offset_s = status.name.partition(":")[0], stamp_s - time.time()
                self.offsets_s[node] = max(offset_s, self.offsets_s.get(node, offset_s))  # the least delayed message
                _, handshake, arm = status.name.partition(HANDSHAKE)
                if handshake:
                    self.handshakes[arm] = {pair.key: pair.value for pair in status.values}


def round_trips(here: Listening[DoctorNode], count: int) -> tuple[list[float], int]:
    """Time requests to the safety process; return the seconds of each answered one, and how many were not."""
    times_s: list[float] = []
    for _ in range(count):
        began_s = time.perf_counter()
        if here.ask(here.node.probe, GetState.Request()) is not None:
            times_s.append(time.perf_counter() - began_s)
        elif not times_s:
            break  # nobody there: no need to wait for each
    return times_s, count - len(times_s)


def request(here: Listening[DoctorNode], name: str) -> str:
    """Ask the safety process for something; return why it was refused, or ""."""
    granted, said = ask(here, here.node.requests[name])
    return "" if granted else said
