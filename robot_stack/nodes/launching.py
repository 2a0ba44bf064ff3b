"""The process table as a launch description. Needs the `launch` package of a ROS install."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    OpaqueFunction,
    RegisterEventHandler,
    TimerAction,
)
from launch.event_handlers import OnShutdown
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration

from launch import LaunchContext, LaunchDescription
from robot_stack.config.resolve import load_run
from robot_stack.nodes.process_table import After, ProcessSpec, after_end
from robot_stack.nodes.run_folder import choose_table, new_folder, prepared
from robot_stack.nodes.supervisor import RESPAWN_DELAY_S


def describe(*, default_run: str | None, cell_only: bool) -> LaunchDescription:
    """A launch file's description: arguments `run`, `set`, `folder`, `cell_only`, `remote_learner`, then the table.

    Args:
        default_run: Run that is launched unless another is named; None asks for one.
        cell_only: Default of that argument.
    """
    return LaunchDescription(
        [
            DeclareLaunchArgument("run", default_value=default_run, description="name of a run, or path to its file"),
            DeclareLaunchArgument("set", default_value="", description="overrides key=value, separated by spaces"),
            DeclareLaunchArgument("folder", default_value="", description="run folder; default: a new one in runs/"),
            DeclareLaunchArgument("cell_only", default_value=str(cell_only).lower(), choices=["true", "false"]),
            DeclareLaunchArgument("remote_learner", default_value="false", choices=["true", "false"]),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list[Any]:
    def value(name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    resolved = load_run(value("run"), shlex.split(value("set")))
    folder = Path(value("folder")) if value("folder") else new_folder(resolved, Path("runs"))
    claim = ExitStack()
    ready = claim.enter_context(prepared(resolved, folder))
    table = choose_table(
        resolved, folder, cell_only=value("cell_only") == "true", remote_learner=value("remote_learner") == "true"
    )
    release = RegisterEventHandler(OnShutdown(on_shutdown=lambda *_: claim.close()))
    return [release, *(process_action(spec, ready.environment) for spec in table)]


def process_action(spec: ProcessSpec, environment: dict[str, str]) -> ExecuteProcess:
    """One row of the table; what follows its end is decided by the table."""

    def ended(event: Any, context: LaunchContext) -> Any:
        del context
        then = after_end(spec, event.returncode)
        if then is After.RESPAWN:
            return TimerAction(period=RESPAWN_DELAY_S, actions=[process_action(spec, environment)])
        reason = f"{spec.name} ended with exit code {event.returncode}"
        return EmitEvent(event=Shutdown(reason=reason)) if then is After.END_RUN else None

    return ExecuteProcess(
        cmd=list(spec.argv),
        name=spec.name,
        env={**environment, **spec.env},
        output="both",
        on_exit=ended,
        sigterm_timeout=str(spec.grace_s),
    )
