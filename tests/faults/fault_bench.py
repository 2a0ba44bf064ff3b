"""Real processes of a cell on a domain of their own, and the sink that watches them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import rclpy
from rclpy.signals import SignalHandlerOptions

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.safety.seal import WireKey
from robot_stack.processes.prepared_run import PreparedRun, prepared
from robot_stack.processes.table import module_of, namespace_of
from robot_stack.runs.paths import RunPaths
from robot_stack.workcell.build_safety import limits_of
from tests.faults.fault_sink import FaultSink

HERE = Path(__file__).parent
DOMAIN = 64
ARM = "fr3"
ROOT = HERE.parents[1]
START_S = 60.0
REALTIME = 2


def fault_run(*more: str, cell: str = "teleop_silence_s: null\n") -> ResolvedRun:
    """The shipped run, far from an operator's own domain; `cell` ends its cell's file: no teleop must be there."""
    with tempfile.TemporaryDirectory() as root:
        own = Path(root) / "cells" / "sim.yaml"
        own.parent.mkdir()
        own.write_text((config_root() / "cells" / "sim.yaml").read_text() + cell)
        return load_run("peg_insert", [f"cell.dds_domain={DOMAIN}", *more], Path(root))


class Bench:
    """Starts, kills and freezes processes; `sink` sees what they do."""

    def __init__(self, run: ResolvedRun, ready: PreparedRun, sink: FaultSink) -> None:
        self.run, self.folder, self.sink = run, ready.folder, sink
        self._ready = ready
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def node(self, name: str, *more: str) -> None:
        """A process of the stack, e.g. "safety"."""
        self._start(name, ["-m", module_of(name), *self._where(), *more])

    def script(self, script: str, *words: str) -> None:
        """A process of this folder; its name is its last word, or the script's."""
        self._start(words[-1] if words else script, [str(HERE / f"{script}.py"), *words, *self._where()])

    def kill(self, name: str) -> int:
        """SIGKILL; returns when."""
        self._children[name].kill()
        now_ns = time.monotonic_ns()
        self._children.pop(name).wait(5.0)
        return now_ns

    def end(self, name: str) -> None:
        """If it runs."""
        if name in self._children:
            self.kill(name)

    def freeze(self, name: str) -> int:
        """SIGSTOP; returns when."""
        self._children[name].send_signal(signal.SIGSTOP)
        return time.monotonic_ns()

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._children[name].send_signal(signal.SIGCONT)

    def pid(self, name: str) -> int:
        """Of a living process."""
        return self._children[name].pid

    def ended(self, name: str) -> int | None:
        """Exit code, or None while it runs."""
        return self._children[name].poll()

    def log(self, name: str) -> str:
        """What a process said."""
        return (self._ready.log_folder / f"{name}.log").read_text()

    def close(self) -> None:
        """Ends every process; those that are frozen too."""
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait(5.0)

    def _where(self) -> list[str]:
        return ["--run", str(RunPaths(self.folder).resolved)]

    def _start(self, name: str, words: list[str]) -> None:
        environment = {**self._ready.environment, "PYTHONPATH": str(ROOT)}
        with (self._ready.log_folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        with suppress(PermissionError):  # as the process table has it
            before = REALTIME if name in ("robot", "safety") else REALTIME - 1  # one that imports takes nobody's turn
            os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(before))
        self._children[name] = child


@contextmanager
def ros_in_this_process(ready: PreparedRun) -> Iterator[None]:
    """The domain and profile of a prepared run, for nodes of the test's own."""
    before = dict(os.environ)
    os.environ.update(ready.environment)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        yield
    finally:
        rclpy.try_shutdown()
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def bench_of(run: ResolvedRun, folder: Path) -> Iterator[Bench]:
    """A cell in which nothing runs yet but the sink."""
    with ExitStack() as stack:
        ready = stack.enter_context(prepared(run, folder))
        stack.enter_context(ros_in_this_process(ready))
        key = WireKey.of_folder(ready.folder)
        sink = stack.enter_context(FaultSink(namespace_of(run), ARM, limits_of(run)[ARM], key))
        bench = Bench(run, ready, sink)
        stack.callback(bench.close)
        yield bench


def heard(bench: Bench) -> Bench:
    """Once robot and safety are heard."""
    sink = bench.sink
    sink.until(lambda: sink.log.decisions and sink.log.applied and sink.log.states, "the cell", START_S)
    return bench
