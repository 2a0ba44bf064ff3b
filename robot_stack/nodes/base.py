"""The base of every node process: arguments, signals, executor, heartbeat, diagnostics and a safe end.

    python -m robot_stack.nodes.<name> --run <resolved run>.yaml [what the node itself asks for] [--ros-args ...]

With --managed the node waits for a bring-up to configure and activate it; without, it does so itself. The namespace is
that of the run; --ros-args may give another, remap topics, and set parameters, as for any node.
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rclpy.timer import Timer
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Header

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes.conversion import header_of
from robot_stack.nodes.diagnostics import Diagnosis
from robot_stack.nodes.managed import ManagedNode
from robot_stack.nodes.parameters import SettingParameters, refuse_unknown_types, settings_of
from robot_stack.nodes.qos import HEARTBEAT, STATE
from robot_stack.nodes.sealing import Sealer
from robot_stack.processes.child import die_with_parent
from robot_stack.processes.table import namespace_of
from robot_stack.types.errors import ConfigError, StackError
from robot_stack.types.finding import Level
from robot_stack.workcell.ending import end_in_peace, ending_signals
from robot_stack.workcell.thread_watch import ThreadWatch

HEARTBEAT_HZ = 20.0
DIAGNOSTICS_HZ = 1.0
FOREVER_S = 1e8
"""Longer timeouts, and None, hang this executor."""
LINGER_S = 0.05
"""Between the last message and leaving: what a subscriber has not taken by then goes with its publisher."""
LEAVE_S = 3
"""What the middleware may take to let go of a process; then SIGALRM ends it. Fast DDS 2.14.5 was seen to wait for
ever for its own threads while a process ended, on a full core: so whoever leaves gives its priority back too."""
LEVELS = {Level.OK: DiagnosticStatus.OK, Level.WARN: DiagnosticStatus.WARN, Level.FAIL: DiagnosticStatus.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings that a node process is started with.

    Attributes:
        run: The resolved run.
        namespace: Of the cell; all topics live under it.
        options: The node's own arguments.
        managed: Whether a bring-up decides when it becomes active.
        key: Of the run, with which its processes seal what they tell each other.
    """

    run: ResolvedRun
    namespace: str
    options: argparse.Namespace
    managed: bool = False
    key: WireKey = field(default_factory=WireKey.random)


class StackNode(ManagedNode):
    """A managed node with steady timers, a heartbeat, diagnostics, and its settings as parameters.

    Attributes:
        session: Names this life of the process, sent with its commands.
        sealer: Seals what is sent on the safety path, and tells who sealed what is heard there.
        settings: The parameters that show what the node runs with.
    """

    def __init__(self, name: str, namespace: str, *, key: WireKey | None = None) -> None:
        """Create the node in the namespace of the cell, with its heartbeat and diagnostics.

        Args:
            name: Of the node.
            namespace: Of the cell.
            key: Of the run; without it the node is a stranger to the safety path.
        """
        super().__init__(name, namespace)
        self.session = f"{name}-{secrets.token_hex(4)}"
        self.sealer = Sealer(WireKey.random() if key is None else key, self.session)
        self.settings = SettingParameters(self)
        refuse_unknown_types(self)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._heartbeat = self.create_publisher(Header, "~/heartbeat", HEARTBEAT)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", STATE)
        self._cpu_s, self._cpu_ns = time.process_time(), time.monotonic_ns()
        self.steady_timer(HEARTBEAT_HZ, self._beat)
        self.steady_timer(DIAGNOSTICS_HZ, self.publish_diagnostics)

    def show_settings(self, run: ResolvedRun, parts: Mapping[str, str]) -> None:
        """Declare what the node runs with as parameters; `parts` is that of `settings_of`."""
        self.settings.declare(settings_of(run, parts))

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """Set parameters for rclpy, or refuse all of them in a sentence that says what to do instead."""
        reason = self.settings.refusal(parameter_list)
        if reason:
            return SetParametersResult(successful=False, reason=reason)
        return super().set_parameters_atomically(parameter_list)

    def steady_timer(self, rate_hz: float, callback: Callable[[], None]) -> Timer:
        """Create a timer on the steady clock, which follows neither /clock nor the wall clock."""
        return self.create_timer(1.0 / rate_hz, callback, clock=self._steady)

    def diagnose(self) -> list[Diagnosis]:
        """Return a diagnosis of each of the node's tasks."""
        return []

    def publish_diagnostics(self) -> None:
        """Publish the node's diagnostics; called once a second, and at once on a change that matters."""
        array = DiagnosticArray(header=header_of(time.monotonic_ns()))  # wall time, whatever `use_sim_time` says
        array.status = [self._status(each) for each in (*self.diagnose(), self._cpu())]
        self._diagnostics.publish(array)

    def _status(self, diagnosis: Diagnosis) -> DiagnosticStatus:
        return DiagnosticStatus(
            name=f"{self.get_name()}: {diagnosis.task}",
            hardware_id=self.get_namespace(),
            level=LEVELS[diagnosis.level],
            message=diagnosis.message,
            values=[KeyValue(key=key, value=str(value)) for key, value in diagnosis.values.items()],
        )

    def _cpu(self) -> Diagnosis:
        cpu_s, now_ns = time.process_time(), time.monotonic_ns()
        share = (cpu_s - self._cpu_s) / max(1e-9, (now_ns - self._cpu_ns) / 1e9)
        self._cpu_s, self._cpu_ns = cpu_s, now_ns
        values = {
            "pid": os.getpid(),
            "cpu_percent": round(100 * share, 1),
            "realtime_priority": os.sched_getparam(0).sched_priority,
        }
        return Diagnosis(task="process", values=values)

    def _beat(self) -> None:
        self._heartbeat.publish(header_of(time.monotonic_ns()))


def make_executor(node: Node) -> Executor:
    """Return an events executor for the node if its timers fire in a self-test, else a slower single-threaded one."""
    executor: Executor = EventsExecutor()
    executor.add_node(node)
    fired: Future = Future()
    probe = node.create_timer(0.001, lambda: fired.set_result(True), clock=Clock(clock_type=ClockType.STEADY_TIME))
    executor.spin_until_future_complete(fired, 1.0)
    node.destroy_timer(probe)
    if fired.done():
        return executor
    node.get_logger().warning("events executor fired no timer within 1 s; using the single-threaded one")
    executor.remove_node(node)
    executor.shutdown()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    return executor


def run_node(
    name: str,
    build: Callable[[NodeSettings], StackNode],
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Run one node until one of `ending_signals` or a failure, and return the exit code of the process."""
    die_with_parent()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        settings = parse_settings(name, remove_ros_args(words), add_arguments)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 1
    rclpy.init(args=words, signal_handler_options=SignalHandlerOptions.NO)
    stop: Future = Future()
    for number in ending_signals():
        signal.signal(number, lambda caught, _: stop.done() or stop.set_result(signal.Signals(caught).name))
    threads = ThreadWatch()
    node: StackNode | None = None
    reason = "failed to start"
    try:
        node = build(settings)
        node.on_defect = lambda: stop.done() or stop.set_result("defect")
        executor = make_executor(node)
        if not settings.managed:
            node.bring_up()
        gc.collect()
        gc.freeze()
        executor.spin_until_future_complete(stop, FOREVER_S)
        if node.defect is not None:
            raise node.defect
        if threads.failure is not None:
            raise threads.failure
        reason = str(stop.result())
        return 0
    except Exception as error:  # the top of a process: say it, hold the robot, leave with a non-zero code
        reason = str(error)
        where = "" if isinstance(error, StackError) else f"\n{traceback.format_exc()}"
        print(f"{name}: {error}{where}", file=sys.stderr, flush=True)
        return 1
    finally:
        if node is not None:
            node.retire(reason)
            time.sleep(LINGER_S)
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LEAVE_S)
            node.destroy_node()
        rclpy.try_shutdown()
        end_in_peace()


def parse_settings(
    name: str, words: Sequence[str], add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
) -> NodeSettings:
    """Parse the command line of a node process.

    Raises:
        ConfigError: If the run file does not hold a resolved run, or the run's key cannot be had.
    """
    parser = argparse.ArgumentParser(prog=f"python -m robot_stack.nodes.{name}")
    parser.add_argument("--run", type=Path, required=True, help="resolved run, as saved in the run folder")
    parser.add_argument("--managed", action="store_true", help="wait until a bring-up configures and activates it")
    if add_arguments is not None:
        add_arguments(parser)
    options = parser.parse_args(words)
    run = load_resolved(options.run)
    return NodeSettings(
        run=run,
        namespace=namespace_of(run),
        options=options,
        managed=options.managed,
        key=WireKey.of_folder(options.run.parent),
    )
