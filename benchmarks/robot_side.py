"""What the robot's machine has to do without a learner: CPU of each process, messages lost, ticks.

Run: python -m benchmarks.robot_side [--quick]

All processes of a cell as `robot-stack deploy` starts them, over DDS with shared memory, with a policy of the shipped
size on a CPU at 10 Hz and the safety filter at 100 Hz. This process plays the drivers: an arm behind MoveIt Servo with
joint states at 500 Hz, a status and forces at 100 Hz, two cameras that publish raw 640x480 images at 30 Hz, and a
gamepad. The arm stands still whatever it is told. Nobody looks at the operator's page.

cpu     of a process in the window, share of one core
lost    joint states and images sent in the window that did not arrive in the robot's and the cameras' processes
jitter  how far two commands that follow each other are from their period, p99
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import rclpy
import torch
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped, WrenchStamped
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import Image, JointState, Joy
from std_msgs.msg import Header, Int8, String

from benchmarks.cameras import HEIGHT, RATE_HZ, ROI, WIDTH, cpu_s, pictures
from policies.acting import actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.registry import find_builders
from robot_stack.config.camera import TopicCameraConfig
from robot_stack.config.drivers import DriverRobot, ServoRobot
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.fitting import image_shapes, sizes_of, write_tensors
from robot_stack.learner.settings import learning_settings
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, StackNode, make_executor
from robot_stack.nodes.conversion import mode_from_text, stamp_ns_of, time_of
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes, console_process, session_process
from robot_stack.types.command import Mode

DOMAIN = 96
JOINTS_HZ, FORCES_HZ, JOY_HZ, PRESS_HZ = 500.0, 100.0, 50.0, 1.0
PRIORITY = 2
ENCODER_NOISE_RAD = 1e-6
"""Of an arm that stands still: encoders that do not change by a bit while it is driven are taken for stuck."""
START_S, SETTLE_S = 60.0, 3.0
WINDOW_S, QUICK_S = 60.0, 5.0
AXES, BUTTONS = 6, 15
CAMERAS = ("wrist", "front")
PROCESSES = ("robot", "safety", "camera_wrist", "camera_front", "teleop", "command_recorder", "console", "actor")


def bench_run() -> ResolvedRun:
    """The shipped plug task on an FR3 behind MoveIt Servo, as one long episode."""
    base = load_run(
        "fr3_table",
        [
            f"cell.dds_domain={DOMAIN}",
            "cell.teleop=joy",
            "cell.console.address=127.0.0.1:0",
            "task.episode_steps=10000",
        ],
    )
    shipped = load(config_root() / "robots" / "fr3_franka.yaml", ROBOTS)
    assert isinstance(shipped, DriverRobot)
    kept = ("name", "joints", "home_rad", "kinematics", "base_frame", "tcp_frame")
    said = {key: value for key, value in shipped.model_dump().items() if key in kept}
    wrench = {"topic": "/wrench", "frame": shipped.tcp_frame}
    robot = ServoRobot.model_validate({**said, "backend": "servo", "status_type": "std_msgs/Int8", "wrench": wrench})
    cameras = {
        name: TopicCameraConfig.model_validate(
            dict(
                backend="topic", source_topic=raw_topic(name), width_px=WIDTH, height_px=HEIGHT, roi_px=ROI,
                policy_width_px=128, policy_height_px=128, rate_hz=RATE_HZ, max_age_s=0.15, freeze_s=None,
            )
        )
        for name in CAMERAS
    }  # fmt: skip
    return replace(base, robots=dict.fromkeys(base.robots, robot), cameras=cameras)


def raw_topic(camera: str) -> str:
    """Where a camera's driver publishes."""
    return f"/bench/{camera}/image_raw"


def write_policy(run: ResolvedRun, path: Path) -> None:
    """One that was never trained, of the size that the shipped settings give."""
    spec, settings = run.spec(), learning_settings(run)
    trunk = EmbeddedTrunk(image_shapes(spec), len(spec.arms[0].axes)).requires_grad_(False).eval()
    ones = torch.ones(spec.proprio_size)
    sizes = sizes_of(trunk, spec, proprio_mean=0 * ones, proprio_std=ones, trained=False)
    learner = find_builders(settings.algorithm).learner(sizes, settings.config, seed=0)
    tensors = {name: torch.from_numpy(np.array(v)) for name, v in pack_tensors(trunk, learner.actor_tensors()).items()}
    metadata = actor_metadata(trunk, algorithm=settings.algorithm, config=settings.config)
    write_tensors(path, tensors, {**metadata, "version": "1"})


class Drivers(StackNode):
    """Publishes what drivers would, counts it, and hears what the cell says."""

    def __init__(self, run: ResolvedRun) -> None:
        super().__init__("drivers", run.run.cell)
        arm, robot = next(iter(run.robots.items()))
        self.mode = Mode.DISARMED
        self.sending = False
        self.sent = {"joints": 0, **dict.fromkeys(CAMERAS, 0)}
        self._diagnosed_ns = dict.fromkeys(self.sent, 0)
        self.behind: dict[str, deque[int]] = {name: deque(maxlen=4) for name in self.sent}
        self.actions_ns: list[int] = []
        self.commands_ns: list[int] = []
        assert isinstance(robot, ServoRobot)
        self._buttons, self._map = [0] * BUTTONS, run.teleop.model_dump()["buttons"]
        self._pressed = 0
        self._joints = self.create_publisher(JointState, robot.joint_states, STATE)
        self._servo = self.create_publisher(Int8, robot.status, STATE)
        self._forces = self.create_publisher(WrenchStamped, "/wrench", STATE)
        self._joy = self.create_publisher(Joy, run.teleop.model_dump()["topic"], NEWEST)
        self._images = {name: self.create_publisher(Image, raw_topic(name), NEWEST) for name in CAMERAS}
        self._state = JointState(name=[joint.name for joint in robot.joints], velocity=[0.0] * len(robot.joints))
        self._state.position = list(robot.home_rad)
        self._home = float(robot.home_rad[0])
        self._wrench = WrenchStamped(header=Header(frame_id=robot.tcp_frame))
        self._pictures = [array("B", picture.tobytes()) for picture in pictures(6)]
        self.create_subscription(TwistStamped, robot.command, lambda _: None, STATE)
        self.create_subscription(TwistStamped, topics.policy(arm), self._on_action, STATE)
        self.create_subscription(TwistStamped, topics.command(arm), self._on_command, STATE)
        self.create_subscription(String, topics.MODE, self._on_mode, LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 100)
        self.steady_timer(JOINTS_HZ, self._send_joints)
        self.steady_timer(FORCES_HZ, self._send_forces)
        self.steady_timer(RATE_HZ, self._send_images)
        self.steady_timer(JOY_HZ, lambda: self._joy.publish(Joy(axes=[0.0] * AXES, buttons=self._buttons)))
        self.steady_timer(2 * PRESS_HZ, self._press)

    def matched(self) -> bool:
        """Whether whoever should hear it is there."""
        heard = [self._joints, *self._images.values()]
        return all(publisher.get_subscription_count() > 0 for publisher in heard)

    def lost(self) -> dict[str, int]:
        """Up to about now: the least that arrivals were behind lately, since some are always on their way."""
        return {name: min(behind) for name, behind in self.behind.items()}

    def diagnosed_since(self, when_ns: int) -> bool:
        """Whether robot and cameras have said how they do since then."""
        return min(self._diagnosed_ns.values()) > when_ns

    def until(self, fits: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return as soon as something is so.

        Raises:
            TimeoutError: If it never is.
        """
        deadline_s = time.monotonic() + timeout_s
        while not fits():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{what} not within {timeout_s:g} s; mode is {self.mode}")
            time.sleep(0.01)

    def _send_joints(self) -> None:
        if self.sending:
            self._state.header.stamp = self.get_clock().now().to_msg()
            self._state.position[0] = self._home + ENCODER_NOISE_RAD * (self.sent["joints"] % 2)
            self._joints.publish(self._state)
            self.sent["joints"] += 1

    def _send_forces(self) -> None:
        self._wrench.header.stamp = self.get_clock().now().to_msg()
        self._forces.publish(self._wrench)
        self._servo.publish(Int8(data=0))

    def _send_images(self) -> None:
        for name, publisher in self._images.items() if self.sending else ():
            message = Image(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH)
            message.header = Header(stamp=time_of(time.time_ns()), frame_id=name)
            message.data = self._pictures[self.sent[name] % len(self._pictures)]
            publisher.publish(message)
            self.sent[name] += 1

    def _press(self) -> None:
        """An operator who says that the scene is ready and arms the cell, until it goes."""
        self._buttons = [0] * BUTTONS
        self._pressed += 1
        if self.mode in (Mode.DISARMED, Mode.READY) and self._pressed % 2:
            self._buttons[self._map["arm" if self.mode is Mode.DISARMED else "reset_done"]] = 1

    def _on_action(self, msg: TwistStamped) -> None:
        self.actions_ns.append(stamp_ns_of(msg.header))

    def _on_command(self, msg: TwistStamped) -> None:
        self.commands_ns.append(stamp_ns_of(msg.header))

    def _on_mode(self, msg: String) -> None:
        self.mode = mode_from_text(msg.data)[0]

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        """How far what a process has got is behind what was sent."""
        for status in msg.status:
            node, _, task = status.name.partition(": ")
            values = {pair.key: pair.value for pair in status.values}
            if node == "robot" and task.startswith("driver of"):
                self._note("joints", int(values.get("joint states: count", 0)))
            elif task == "frames":
                self._note(node.removeprefix("camera_"), int(values["count"]))

    def _note(self, name: str, arrived: int) -> None:
        self._diagnosed_ns[name] = time.monotonic_ns()
        self.behind[name].append(self.sent[name] - arrived)


def jitter_ms(stamps_ns: list[int], rate_hz: float) -> float:
    """99th percentile of how far two stamps that follow each other are from the period."""
    return float(np.percentile(np.abs(np.diff(np.array(stamps_ns, dtype=np.float64)) / 1e6 - 1e3 / rate_hz), 99))


def observed(drivers: Drivers, supervisor: Supervisor, run: ResolvedRun, window_s: float) -> dict[str, float]:
    """Figures of a cell that comes up."""
    drivers.until(drivers.matched, "robot and cameras", START_S)
    time.sleep(SETTLE_S)  # matched on the other side too
    drivers.sending = True
    drivers.until(lambda: drivers.mode is Mode.POLICY, "the policy's turn", START_S)
    time.sleep(SETTLE_S)
    drivers.actions_ns.clear()
    drivers.commands_ns.clear()
    lost_before = drivers.lost()
    pids = {name: supervisor.pid(name) for name in PROCESSES}
    before, began_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(window_s)
    after, passed_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic() - began_s
    mode, actions_ns, commands_ns = drivers.mode, list(drivers.actions_ns), list(drivers.commands_ns)
    drivers.sending = False
    ended_ns = time.monotonic_ns() + round(5e8)
    drivers.until(lambda: drivers.diagnosed_since(ended_ns), "a word on what has arrived", 10.0)
    if mode is not Mode.POLICY:
        raise SystemExit(f"mode is {mode} at the end, must be POLICY; the machine was too busy to measure")
    lost = {name: behind[-1] - lost_before[name] for name, behind in drivers.behind.items()}
    shares = {name: (after[name] - before[name]) / passed_s for name in PROCESSES}
    return {
        **{f"robot_side_cpu_{name}": share for name, share in shares.items()},
        "robot_side_cpu_sum": sum(shares.values()),
        "robot_side_messages": sum(drivers.sent.values()),
        "robot_side_lost_joint_states": lost["joints"],
        "robot_side_lost_images": sum(lost[name] for name in CAMERAS),
        "robot_side_jitter_ms_policy": jitter_ms(actions_ns, run.run.rate_hz),
        "robot_side_jitter_ms_safety": jitter_ms(commands_ns, run.safety.rate_hz),
    }


def measure(quick: bool = False) -> dict[str, float]:
    """Shares of a core, counts, milliseconds."""
    run = bench_run()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        with prepared(run, folder) as ready:
            policy = folder / "policy.safetensors"
            write_policy(run, policy)
            session = session_process(
                "deployed", folder, "--policy", str(policy), "--episodes", "1", "--judge", "operator"
            )
            environment = {**ready.environment, "XDG_STATE_HOME": name}
            before = dict(os.environ)
            os.environ.update(environment)
            table = (*cell_processes(run, folder), console_process(run, folder), session)
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
            drivers, stop = Drivers(run), Future()
            spin = threading.Thread(target=_spin, args=(drivers, stop))
            spin.start()
            try:
                with Supervisor(table, environment=environment, log_folder=ready.log_folder) as supervisor:
                    return observed(drivers, supervisor, run, QUICK_S if quick else WINDOW_S)
            except TimeoutError:
                for log in sorted(ready.log_folder.glob("*.log")):
                    print(f"{log.name}: {log.read_text()[-600:]}", flush=True)
                raise
            finally:
                stop.set_result(True)
                spin.join(5.0)
                drivers.destroy_node()
                rclpy.try_shutdown()
                os.environ.clear()
                os.environ.update(before)


def _spin(drivers: Drivers, stop: Future) -> None:
    """With the priority of a driver on a robot's machine, where that is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    except PermissionError:
        print("no real-time priority: what the drivers send may be late", flush=True)
    make_executor(drivers).spin_until_future_complete(stop, FOREVER_S)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S:g} s, to see that it runs")
    for name, value in measure(quick=parser.parse_args().quick).items():
        print(f"{name:>36} {value:.4g}")


if __name__ == "__main__":
    main()
