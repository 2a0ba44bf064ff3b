"""A driver's double, the robot process's node in front of it, and a test in the place of the safety process."""

from __future__ import annotations

import argparse
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.clock import Clock, ClockType
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.task import Future
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from robot_stack.config.drivers import DriverRobot, FrankaRobot
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, NodeSettings
from robot_stack.nodes.conversion import (
    fault_from_msg,
    frame_of_mode,
    header_of,
    stamp_ns_of,
    state_from_msg,
    twist_from_msg,
    twist_to_msg,
    vector_to_msg,
)
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.nodes.robot.node import build
from robot_stack.nodes.sealing import Sealer
from robot_stack.types.command import Mode
from robot_stack.types.pose import Pose
from robot_stack.types.reason import FaultKind
from tests.conformance.driver_doubles import (
    DriverDouble,
    FrankaDouble,
    PoseDouble,
    ServoDouble,
    TrajectoryDouble,
    UrDouble,
    VelocityDouble,
)

ARM = "fr3"
KEY = WireKey.random()
"""Of the run of these tests."""
MS = 1_000_000
PATIENCE_S = 8.0
TIMEOUT_S = 0.05
"""Of the output watchdog, in safety/table.yaml."""

GRIPPER = {
    "interface": "commands",
    "command": "/gripper/commands",
    "joint": "fr3_finger_joint1",
    "closed": 0.0,
    "open": 0.04,
    "max_width_m": 0.08,
    "max_force_n": 70.0,
}
BUSY_S = 0.25
"""Silence at which an input is stale in these tests: on a busy machine a double may miss some of its ticks."""
SAYS = {"joint_states_rate_hz": 60.0, "joint_states_publisher": "driver"}
"""What every double answers at the start; it publishes at 100 Hz, but a busy machine may slow it down."""
FROM_TOPIC = {"source": "topic", "topic": "/current_pose", "timeout_s": BUSY_S}
BACKENDS: Mapping[str, tuple[type[DriverDouble] | None, dict[str, Any]]] = {
    "sim": (None, {}),
    "servo": (
        ServoDouble,
        {
            "status_type": "std_msgs/Int8",
            "command_in": "speed_units",
            "linear_scale_m_s": 0.2,
            "rotational_scale_rad_s": 0.8,
        },
    ),
    "pose_target": (PoseDouble, {"pose": FROM_TOPIC}),
    "joint_trajectory": (TrajectoryDouble, {}),
    "forward_velocity": (VelocityDouble, {}),
    "ur": (UrDouble, {"safety_mode_type": "std_msgs/UInt8"}),
    "franka": (
        FrankaDouble,
        {
            "pose": FROM_TOPIC,
            "robot_state_type": "std_msgs/UInt8",
            "recovery": "/error_recovery",
            "recovery_type": "std_srvs/Trigger",
            "wrench": {"topic": "/wrench", "acts": "on_tool", "frame": "base", "timeout_s": BUSY_S},
        },
    ),
}
"""Backend -> double, and what its robot file says besides."""


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Returns as soon as the condition holds; fails if it never does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} not within {timeout_s} s"
        time.sleep(0.002)


def await_words(bench: Bench, words: str) -> None:
    """The robot process gives that as the reason, in one line."""
    deadline_s = time.monotonic() + PATIENCE_S
    while words not in bench.safety.fault:
        assert time.monotonic() < deadline_s, f"{bench.safety.fault!r}, not {words!r}"
        time.sleep(0.002)
    assert "\n" not in bench.safety.fault


def end_unbuilt(error: BaseException) -> None:
    """Destroy a node that was refused half built: it would be a rival of the next one until it is collected."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(node := frame.f_locals.get("self"), Node):
            Node.destroy_node(node)
            return


def robot_of(backend: str, **changes: Any) -> DriverRobot:
    """An FR3 with the names of the doubles, behind that backend."""
    shipped = load(config_root() / "robots" / "fr3_franka.yaml", ROBOTS)
    assert isinstance(shipped, FrankaRobot)
    common = ("name", "joints", "home_rad", "kinematics")
    said = {key: value for key, value in shipped.model_dump().items() if key in common}
    frames = {"base_frame": "base", "tcp_frame": "tcp", "gripper": GRIPPER, "driver": SAYS}
    frames["joint_states_timeout_s"] = BUSY_S
    robot = ROBOTS.builtin[backend].model_validate(
        {**said, **frames, "backend": backend, **BACKENDS[backend][1], **changes}
    )
    assert isinstance(robot, DriverRobot)
    return robot


class Spinning:
    """A node that is spun in a thread of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._stop = Future()
        self._executor = EventsExecutor(context=node.context)
        self._executor.add_node(node)
        self._thread = threading.Thread(
            target=lambda: self._executor.spin_until_future_complete(self._stop, FOREVER_S), daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """The node is gone afterwards."""
        self._stop.set_result(True)
        self._thread.join(5.0)
        self._executor.shutdown()
        self.node.destroy_node()


class Safety(Node):
    """Commands as the safety process does, and remembers all that the robot process says."""

    def __init__(self, namespace: str, arm: str = ARM) -> None:
        super().__init__(f"safety_of_the_test_{arm}", namespace=namespace, start_parameter_services=False)
        self.arm = arm
        self.twist: np.ndarray | None = None
        """Sent a hundred times a second; None is silence."""
        self.gripper: float | None = None
        self.mode = Mode.POLICY
        """By which it decides."""
        self.sent_ns = 0
        self.states: list[tuple[int, Any]] = []
        self.applied: list[tuple[int, np.ndarray]] = []
        self.faults: list[str] = []
        self.kinds: list[FaultKind | None] = []
        self.reset_answers: list[str] = []
        self.diagnoses: dict[str, tuple[int, str]] = {}
        self.values: dict[str, str] = {}
        """Of the driver, as diagnosed."""
        self._commands = self.create_publisher(TwistStamped, topics.command(arm), NEWEST)
        self._grippers = self.create_publisher(JointState, topics.command_gripper(arm), NEWEST)
        self.resets = self.create_publisher(Header, topics.RESET_REQUEST, NEWEST)
        self.create_subscription(JointState, topics.state(arm), self._on_state, STATE)
        self.create_subscription(TwistStamped, topics.applied(arm), self._on_applied, STATE)
        self.create_subscription(DiagnosticArray, topics.fault(arm), self._on_fault, LATCHED)
        self.create_subscription(
            Header, topics.RESET_DONE, lambda msg: self.reset_answers.append(msg.frame_id), LATCHED
        )
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, STATE)
        self._sealer = Sealer(KEY, f"safety_of_the_test_{arm}")
        self.recovery = self.create_client(Trigger, topics.recover(arm))
        self.create_timer(0.01, self._send, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def recover(self) -> Trigger.Response:
        """As an operator would."""
        wait_until(self.recovery.service_is_ready, "recovery service")
        future = self.recovery.call_async(Trigger.Request())
        wait_until(future.done, "answer to recovery")
        return future.result()

    @property
    def fault(self) -> str:
        return self.faults[-1] if self.faults else "nothing said yet"

    def send_raw(self, twist: np.ndarray, stamp_ns: int) -> None:
        msg = twist_to_msg(twist, stamp_ns, frame_of_mode("tcp", self.mode))
        self._commands.publish(self._sealer.seal(topics.command(self.arm), msg))

    def _send(self) -> None:
        if self.twist is not None:
            self.sent_ns = time.monotonic_ns()
            self.send_raw(self.twist, self.sent_ns)
        if self.gripper is not None:
            opening = vector_to_msg(np.array([self.gripper]), time.monotonic_ns())
            self._grippers.publish(self._sealer.seal(topics.command_gripper(self.arm), opening))

    def _on_state(self, msg: JointState) -> None:
        self.states.append((time.monotonic_ns(), state_from_msg(msg, self.arm)))

    def _on_fault(self, msg: DiagnosticArray) -> None:
        fault = fault_from_msg(msg)
        self.kinds.append(None if fault is None else fault.kind)
        self.faults.append("" if fault is None else fault.text)

    def _on_applied(self, msg: TwistStamped) -> None:
        self.applied.append((stamp_ns_of(msg.header), twist_from_msg(msg)))

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status:
            self.diagnoses[status.name] = (status.level[0], status.message)
            if status.name == f"robot: driver of {self.arm}":
                self.values = {pair.key: pair.value for pair in status.values}


class Bench:
    """One backend in front of its double (or of MuJoCo), ready to be driven."""

    def __init__(self, run: ResolvedRun, make_double: Callable[[], DriverDouble] | None) -> None:
        self.backend = run.robot.backend
        self.rate_hz = 100.0
        settings = NodeSettings(run=run, namespace=run.run.cell, options=argparse.Namespace(), key=KEY)
        self.node = build(settings)
        self.node.bring_up()
        self._robot: Spinning | None = Spinning(self.node)
        self._double = None if make_double is None else Spinning(make_double())
        self.safety = Safety(run.run.cell)
        self._safety = Spinning(self.safety)

    @property
    def double(self) -> Any:
        assert self._double is not None
        return self._double.node

    @property
    def is_sim(self) -> bool:
        return self._double is None

    def close(self) -> None:
        for spinning in (self._safety, self._robot, self._double):
            if spinning is not None:
                spinning.end()

    def vanish(self) -> None:
        """The robot process is gone, without a last word."""
        assert self._robot is not None
        self._robot.end()
        self._robot = None

    def activate(self) -> None:
        """As the cell's manager asks for it."""
        self._change_state(Transition.TRANSITION_ACTIVATE)

    def deactivate(self) -> None:
        """As the cell's manager asks for it: over the service, so that it happens between two ticks."""
        self._change_state(Transition.TRANSITION_DEACTIVATE)

    def restart_driver(self, make: Callable[[], DriverDouble], meanwhile: Callable[[], None]) -> None:
        """The driver's process ends; after `meanwhile` another one starts."""
        assert self._double is not None
        self._double.end()
        meanwhile()
        self._double = Spinning(make())

    def await_ready(self) -> None:
        """Safety commands zero, the driver is heard, and nothing is wrong."""
        self.safety.twist = np.zeros(6)
        wait_until(lambda: self.safety.states, "states")
        self.await_no_fault()
        wait_until(lambda: self.safety.applied, "applied twists")

    def await_no_fault(self) -> None:
        """The robot process has said that nothing is wrong."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.safety.fault:
            assert time.monotonic() < deadline_s, f"{self.safety.fault!r}, not an end of it"
            time.sleep(0.002)

    def pose(self) -> Pose:
        """Of the TCP, from MuJoCo where there is a double."""
        if self.is_sim:
            return self.safety.states[-1][1].T_base_tcp
        return self.double.arm.pose()

    def drive(self, twist: list[float], seconds: float) -> None:
        """Command a twist for a while, then zero."""
        self.safety.twist = np.array(twist)
        self.let_pass(seconds)
        self.safety.twist = np.zeros(6)

    def let_pass(self, seconds: float) -> None:
        """Until the robot process has said that it applied something that much later."""
        until_ns = time.monotonic_ns() + int(seconds * 1e9)
        wait_until(lambda: self.safety.applied and self.safety.applied[-1][0] >= until_ns, "time on robot/applied")

    def moving(self) -> bool:
        return bool(self.safety.applied) and float(np.abs(self.safety.applied[-1][1]).max()) > 1e-6

    def _change_state(self, transition: int) -> None:
        client = self.safety.create_client(ChangeState, f"{self.node.get_fully_qualified_name()}/change_state")
        try:
            wait_until(client.service_is_ready, "service of the life cycle")
            future = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
            wait_until(future.done, "answer of the life cycle")
            assert future.result().success
        finally:
            self.safety.destroy_client(client)

    def ask_reset(self, seed: str) -> None:
        self.safety.resets.publish(header_of(time.monotonic_ns(), seed))


def misfit(bench: Bench, twist: list[float]) -> str:
    """Where the arm got instead of where the applied twists lead, or ""; tried until a busy machine lets it be."""
    said = ""
    for _ in range(10):
        before, since_ns = bench.pose(), time.monotonic_ns()
        bench.drive(twist, 0.3)
        bench.let_pass(0.2)
        wanted = travelled(bench.safety.applied, since_ns)
        moved = bench.pose().relative_to(before)
        way_m, way_rad = np.linalg.norm(wanted.position_m), wanted.rotation.magnitude()
        off_m = np.linalg.norm(moved.position_m - wanted.position_m)
        off_rad = (moved.rotation * wanted.rotation.inv()).magnitude()
        if way_m > 0.01 and off_m < 0.25 * way_m and off_rad < 0.25 * way_rad + 0.02:
            return ""
        said = f"{off_m * 1e3:.1f} of {way_m * 1e3:.1f} mm and {off_rad:.3f} of {way_rad:.3f} rad off"
        bench.drive([-entry for entry in twist], 0.3)
    return said


def travelled(applied: list[tuple[int, np.ndarray]], since_ns: int) -> Pose:
    """Where a frame gets that follows the applied twists, each until the next."""
    pose = Pose.identity()
    ticks = [each for each in applied if each[0] > since_ns]
    for (stamp_ns, twist), (next_ns, _) in pairwise(ticks):
        dt_s = (next_ns - stamp_ns) / 1e9
        step = Pose.from_rotation(twist[:3] * dt_s, Rotation.from_rotvec(twist[3:] * dt_s))
        pose = pose @ step
    return pose
