"""The process table as launch descriptions, which need the `launch` package of a ROS install.

`ros2 launch` runs in the interpreter that ROS was installed for, the processes in the one that this package was
installed into: with ROS from packages of the system and robot-stack in a virtual environment these are two.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from launch.actions import DeclareLaunchArgument, EmitEvent, ExecuteProcess, LogInfo, OpaqueFunction, TimerAction
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration

from launch import LaunchContext, LaunchDescription
from robot_stack.config.files.library import run_of_cell
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.child import wrapped
from robot_stack.processes.prepared_run import choose_table, new_folder, prepared
from robot_stack.processes.shared_memory import remove_stale
from robot_stack.processes.table import (
    ONE_THREAD,
    RESOLVED,
    RESPAWN_DELAY_S,
    After,
    ProcessSpec,
    Restarts,
    learner_process,
)
from robot_stack.types.errors import ConfigError

BOOLEAN = ["true", "false"]


def describe_sim(launch_file: str) -> LaunchDescription:
    """Describe a dry run's launch: all processes on this machine, each active as soon as it has started."""
    run = DeclareLaunchArgument("run", default_value="peg_insert", description="name of a run, or path to its file")

    def start(value: Callable[[str], str]) -> list[Any]:
        resolved = load_run(value("run"), shlex.split(value("set")))
        return _cell_actions(resolved, value, launch_file, remote_learner=False, self_active=True)

    return _described(start, run, _flag("cell_only", "false", "no actor, no learner"))


def describe_workcell(launch_file: str) -> LaunchDescription:
    """Describe the launch of a cell's processes, brought up in their order; with cell_only:=false the actor too."""
    cell = DeclareLaunchArgument("cell", default_value="", description="name of a cell that one run names")
    run = DeclareLaunchArgument("run", default_value="", description="name of a run, or path to its file")
    remote = _flag("remote_learner", "true", "the learner runs where the cell says, not here")

    def start(value: Callable[[str], str]) -> list[Any]:
        resolved = _workcell_run(value("cell"), value("run"), shlex.split(value("set")))
        remote_learner = value("remote_learner") == "true"
        return _cell_actions(resolved, value, launch_file, remote_learner=remote_learner, self_active=False)

    return _described(start, cell, run, _flag("cell_only", "true", "no actor, no learner"), remote)


def describe_learner(launch_file: str) -> LaunchDescription:
    """Describe the launch of the learner alone, on the machine with the GPU."""
    run = DeclareLaunchArgument("run", description="name of a run, or path to its file")
    address = DeclareLaunchArgument("address", default_value="", description="host:port; default: the cell's")

    def start(value: Callable[[str], str]) -> list[Any]:
        resolved = load_run(value("run"), shlex.split(value("set")))
        folder = _folder(resolved, value)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESOLVED).write_text(resolved.to_yaml())
        python = interpreter(launch_file)
        spec = learner_process(folder, value("address") or resolved.cell.learner_address, python=python)
        return [_Row(spec, {**os.environ, **ONE_THREAD}, python).action()]

    return _described(start, run, address)


def interpreter(launch_file: str) -> str:
    """Return the Python of the virtual environment that holds a launch file; outside of one, this Python."""
    prefix = Path(os.path.normpath(os.path.join(os.path.abspath(launch_file), "../../../..")))
    return str(prefix / "bin" / "python3") if (prefix / "pyvenv.cfg").is_file() else sys.executable


def _flag(name: str, default: str, text: str) -> DeclareLaunchArgument:
    return DeclareLaunchArgument(name, default_value=default, choices=BOOLEAN, description=text)


def _described(
    start: Callable[[Callable[[str], str]], list[Any]], *arguments: DeclareLaunchArgument
) -> LaunchDescription:
    """Return a launch description with the given arguments and the common ones, which then calls `start`.

    `start` gets a function that returns the value of an argument by its name, and returns the actions.
    """

    def perform(context: LaunchContext) -> list[Any]:
        return start(lambda name: str(LaunchConfiguration(name).perform(context)))

    return LaunchDescription(
        [
            *arguments,
            DeclareLaunchArgument("set", default_value="", description="overrides key=value, separated by spaces"),
            DeclareLaunchArgument("folder", default_value="", description="run folder; default: a new one in runs/"),
            OpaqueFunction(function=perform),
        ]
    )


def _workcell_run(cell: str, run: str, overrides: list[str]) -> ResolvedRun:
    if not cell and not run:
        raise ConfigError("cell is not given, must be named; cell:=NAME, or run:=NAME")
    resolved = load_run(run or run_of_cell(cell), overrides)
    if cell and resolved.run.cell != cell:
        raise ConfigError(f"cell is {cell!r}, must be {resolved.run.cell!r} with run {run!r}; leave one of them out")
    return resolved


def _folder(resolved: ResolvedRun, value: Callable[[str], str]) -> Path:
    return Path(value("folder")) if value("folder") else new_folder(resolved, Path("runs"))


def _cell_actions(
    resolved: ResolvedRun,
    value: Callable[[str], str],
    launch_file: str,
    *,
    remote_learner: bool,
    self_active: bool,
) -> list[Any]:
    python = interpreter(launch_file)
    folder = _folder(resolved, value)
    claim = ExitStack()
    atexit.register(claim.close)  # the domain is this run's until the last process has ended
    ready = claim.enter_context(prepared(resolved, folder, prefix=Path(python).parents[1]))
    table = choose_table(
        resolved,
        folder,
        cell_only=value("cell_only") == "true",
        remote_learner=remote_learner,
        self_active=self_active,
        python=python,
    )
    said = LogInfo(msg=f"{resolved.name}: DDS domain {ready.domain}; folder {folder}")
    return [said, *(_Row(spec, ready.environment, python).action() for spec in table)]


class _Row:
    """One row of the process table as launch actions; the table decides what follows the end of its process."""

    def __init__(self, spec: ProcessSpec, environment: dict[str, str], python: str) -> None:
        self._spec = spec
        self._environment = environment
        self._argv = wrapped(spec.argv, python=python, nice=spec.nice, realtime=spec.realtime)
        self._rule = Restarts(spec)
        self._started_s = 0.0

    def action(self) -> ExecuteProcess:
        """Return the action that starts the process, and starts it again whenever the table says so."""
        self._started_s = time.monotonic()
        return ExecuteProcess(
            cmd=list(self._argv),
            name=self._spec.name,
            env={**self._environment, **self._spec.env},
            output="both",
            on_exit=self._ended,
            sigterm_timeout=str(self._spec.grace_s),
        )

    def _ended(self, event: Any, context: LaunchContext) -> Any:
        del context
        then = self._rule.after(event.returncode, time.monotonic() - self._started_s)
        if then is After.RESPAWN:
            remove_stale()
            again = OpaqueFunction(function=lambda _: [self.action()])
            return TimerAction(period=RESPAWN_DELAY_S, actions=[again])
        reason = f"{self._spec.name} ended with exit code {event.returncode}"
        return EmitEvent(event=Shutdown(reason=reason)) if then is After.END_RUN else None
