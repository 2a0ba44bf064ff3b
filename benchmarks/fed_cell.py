"""A cell of two real processes, teleop and safety, over DDS, fed by the caller: device, robot and policy.

The device is a sensor_msgs/Joy, as joy_node publishes it: at once on a change, and repeated. The robot stands still in
the middle of its box; what reaches it is kept with its time of arrival.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import JointState, Joy
from std_srvs.srv import Trigger

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, StackNode, make_executor
from robot_stack.nodes.conversion import (
    decision_from_msg,
    fault_to_msg,
    mode_from_text,
    stamp_ns_of,
    state_to_msg,
    teleop_from_msg,
    twist_from_msg,
    twist_to_msg,
)
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, STATE
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.processes.child import take_priority
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec, cell_processes
from robot_stack.types.command import Decision, Mode, Source
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Refusal
from robot_stack.types.robot import RobotState, TeleopSample

JOY_TOPIC = "joy"
JOY_HZ, STATE_HZ, POLICY_HZ = 50.0, 100.0, 20.0
AXES, BUTTONS = 6, 15
POLICY_TWIST = np.array([0.0, 0.03, 0.0, 0.0, 0.0, 0.1])
PATIENCE_S = {"policy_timeout_s": 0.5, "state_timeout_s": 0.2}
PRIORITY = 2
ENCODER_NOISE_RAD = 1e-6
"""Of an arm that stands still: encoders that do not change by a bit while it is driven are taken for stuck."""
START_S = 40.0
SERVICE_S = 5.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """A command at the robot: when it was decided, when it came, and what it asks for, (6,), m/s and rad/s."""

    stamp_ns: int
    arrived_ns: int
    twist: np.ndarray


DEVICE = ("cell.teleop=joy", f"teleop.topic={JOY_TOPIC}")


def fed_run(folder: Path, domain: int, *overrides: str, device: Sequence[str] = DEVICE) -> ResolvedRun:
    """The dry run with a Joy in the scripted operator's place.

    The feeder is one process for robot and policy: on a busy machine it may be late, which is not what is looked at.
    So the filter waits longer for these two; how long it waits for the operator stays as it is.

    Args:
        folder: For a safety file of its own.
        domain: DDS domain to begin the search for a free one at.
        overrides: Texts `dotted.key=value`.
        device: The same, for another device in the Joy's place.
    """
    patient = folder / "safety" / "table.yaml"
    patient.parent.mkdir(parents=True)
    text = (config_root() / "safety" / "table.yaml").read_text()
    for name, limit in PATIENCE_S.items():
        text = re.sub(rf"^{name}: \S+", f"{name}: {limit}", text, flags=re.MULTILINE)
    patient.write_text(text)
    return load_run("peg_insert", [*device, f"cell.dds_domain={domain}", *overrides], folder)


class FedCell(StackNode):
    """Plays the device, the robot and the policy, each at its own rate, in the executor's thread."""

    def __init__(self, run: ResolvedRun, key: WireKey) -> None:
        super().__init__("feeder", run.run.cell, key=key)
        self.run = run
        self.folder = Path()
        self._rng = np.random.default_rng(0)
        self.supervisor: Supervisor | None = None
        self.commands: list[Arrived] = []
        self.decisions: list[Decision] = []
        self.banner: tuple[Mode, Refusal | None] = (Mode.DISARMED, None)
        self.teleop: TeleopSample | None = None
        self.policy_acts = True
        self.joy_sends = True
        self.axes, self.buttons = [0.0] * AXES, [0] * BUTTONS
        self._map = run.teleop.model_dump()
        arm = run.robot.name
        self.plug_in()
        self._state = self.create_publisher(JointState, topics.state(arm), STATE)
        self._policy = self.create_publisher(TwistStamped, topics.policy(arm), NEWEST)
        self._fault = self.create_publisher(DiagnosticArray, topics.fault(arm), LATCHED)
        self._fault.publish(self.sealer.seal(topics.fault(arm), fault_to_msg(None, arm, time.monotonic_ns())))
        self.create_subscription(TwistStamped, topics.command(arm), self._on_command, STATE)
        self.create_subscription(Joy, topics.label(arm), self._on_label, EVERY)
        listen_to_text(self, topics.MODE, self._on_mode)
        self.create_subscription(Joy, topics.teleop(arm), self._on_teleop, NEWEST)
        self._requests = {
            name: self.create_client(Trigger, topics.safety_service(name)) for name in topics.SAFETY_REQUESTS
        }
        self.steady_timer(JOY_HZ, self._send_joy)
        self.steady_timer(STATE_HZ, self._report)
        self.steady_timer(POLICY_HZ, self._act)

    def plug_in(self) -> None:
        """The device's node is there."""
        self._joy = self.create_publisher(Joy, JOY_TOPIC, NEWEST)

    def unplug(self) -> None:
        """The device's node is gone, `joy_sends` off."""
        self.destroy_publisher(self._joy)

    def button(self, action: str, value: int) -> int:
        """A button of the device goes down or up; when, on the monotonic clock."""
        self.buttons[self._map["buttons"][action]] = value
        now_ns = time.monotonic_ns()
        self._send_joy()
        return now_ns

    def push(self, axis: str, amount: float) -> None:
        """The stick is pushed."""
        self.axes[self._map["axes"][axis]] = amount

    def send_nonsense(self) -> int:
        """One message that cannot be; when."""
        now_ns = time.monotonic_ns()
        self._joy.publish(Joy(axes=[float("nan")] * AXES, buttons=self.buttons))
        return now_ns

    def believed(self) -> bool:
        """Whether the teleop process has its device, and it is let go."""
        return self.teleop is not None and not self.teleop.lost and not self.teleop.deadman

    def recovered(self) -> bool:
        """Whether the policy drives; starts or resumes on the way there."""
        mode = self.banner[0]
        if mode is Mode.HOLD:
            self.request("resume")
        elif mode is Mode.READY:
            self.request("start_policy")
        return bool(self.decisions) and self.decisions[-1].source is Source.POLICY

    def request(self, name: str) -> str:
        """A request to the safety filter; why it was refused, or "".

        Raises:
            TimeoutError: If it is not answered.
        """
        client, answered = self._requests[name], threading.Event()
        if not client.wait_for_service(START_S):
            raise TimeoutError(f"service {name} is missing, must be offered by the safety process")
        future = client.call_async(Trigger.Request())
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(SERVICE_S):
            raise TimeoutError(f"{name} is not answered within {SERVICE_S:g} s")
        answer = future.result()
        return "" if answer.success else answer.message

    def until(self, fits: Callable[[], object], what: str, timeout_s: float = 10.0) -> None:
        """Return as soon as something is so.

        Raises:
            TimeoutError: If it never is.
        """
        deadline_s = time.monotonic() + timeout_s
        while not fits():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{what} not within {timeout_s:g} s; mode is {self.banner}")
            time.sleep(0.001)

    def _send_joy(self) -> None:
        if self.joy_sends:
            self._joy.publish(Joy(axes=self.axes, buttons=self.buttons))

    def _report(self) -> None:
        box = self.run.cell.workspace
        centre = (np.array(box.min_m) + np.array(box.max_m)) / 2
        state = RobotState(
            arm=self.run.robot.name,
            stamp_ns=time.monotonic_ns(),
            T_base_tcp=Pose(position_m=centre, quaternion_xyzw=np.array([1.0, 0.0, 0.0, 0.0])),
            twist=np.zeros(6),
            wrench=np.zeros(6),
            joints_rad=np.array(self.run.robot.home_rad) + ENCODER_NOISE_RAD * self._rng.random(),
            joint_speeds_rad_s=np.zeros(len(self.run.robot.joints)),
            gripper=1.0,
        )
        self._state.publish(self.sealer.seal(topics.state(state.arm), state_to_msg(state)))

    def _act(self) -> None:
        if self.policy_acts:
            self._policy.publish(twist_to_msg(POLICY_TWIST, time.monotonic_ns(), self.run.robot.tcp_frame))

    def _on_command(self, msg: TwistStamped) -> None:
        arrived_ns = time.monotonic_ns()
        self.commands.append(Arrived(stamp_ns_of(msg.header), arrived_ns, twist_from_msg(msg)))

    def _on_label(self, msg: Joy) -> None:
        self.decisions.append(decision_from_msg(msg, self.run.robot.name))

    def _on_teleop(self, msg: Joy) -> None:
        self.teleop = teleop_from_msg(msg)

    def _on_mode(self, text: str) -> None:
        self.banner = mode_from_text(text)


@contextmanager
def fed_cell(run: ResolvedRun, folder: Path, more: Sequence[ProcessSpec] = ()) -> Iterator[FedCell]:
    """Both processes started and heard, the device let go, and the arm armed.

    Args:
        run: From `fed_run`.
        folder: Of the run.
        more: Processes beside them. With a page's device nobody is at it yet, so nothing is armed.

    Raises:
        TimeoutError: If one of them stays silent; its log is in the folder.
    """
    with prepared(run, folder) as ready:
        before = dict(os.environ)
        os.environ.update(ready.environment)
        table = [row for row in cell_processes(run, folder) if row.name in ("safety", "teleop")] + list(more)
        try:
            with (
                Supervisor(table, environment=ready.environment, log_folder=ready.log_folder) as supervisor,
                _joined(run, WireKey.of_folder(folder)) as cell,
            ):
                cell.folder, cell.supervisor = folder, supervisor
                cell.until(lambda: cell.decisions and cell.commands, "commands of the safety process", START_S)
                if run.teleop.device != "browser":
                    cell.until(cell.believed, "a device that is believed", START_S)
                    cell.until(lambda: cell.request("arm") == "", "an armed cell", START_S)
                yield cell
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _joined(run: ResolvedRun, key: WireKey) -> Iterator[FedCell]:
    """The feeder's node, spinning in a thread of its own."""
    with _as_soon_as_the_robot():
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        cell, stop = FedCell(run, key), Future()
        executor = make_executor(cell)
        spin = threading.Thread(target=lambda: executor.spin_until_future_complete(stop, FOREVER_S), daemon=True)
        spin.start()
        try:
            yield cell
        finally:
            stop.set_result(True)
            spin.join(5.0)
            cell.destroy_node()
            rclpy.try_shutdown()


@contextmanager
def _as_soon_as_the_robot() -> Iterator[None]:
    """What the process table gives the robot, for this thread and those it starts: priority or else short turns."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    take_priority(0, PRIORITY)
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def steps_over_limit(commands: list[Arrived], acceleration: float, rotation_acceleration: float) -> float:
    """Largest change of velocity between two commands, as a share of what the acceleration limits allow in between."""
    worst = 0.0
    for before, after in pairwise(commands):
        passed_s = (after.stamp_ns - before.stamp_ns) / 1e9
        change = after.twist - before.twist
        worst = max(
            worst,
            float(np.linalg.norm(change[:3])) / (acceleration * passed_s),
            float(np.linalg.norm(change[3:])) / (rotation_acceleration * passed_s),
        )
    return worst
