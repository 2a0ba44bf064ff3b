"""`robot-stack up RUN`: all processes of a run on this machine, without the ros2 command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes.run_folder import PreparedRun, choose_table, new_folder, prepared
from robot_stack.nodes.supervisor import Supervisor
from robot_stack.types.errors import ConfigError


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    cell_only: bool = False,
    remote_learner: bool = False,
    timeout_s: float | None = None,
) -> int:
    """Start the processes of a run and watch them until they end; returns the exit code.

    Args:
        name: Name of a run, or path to its file.
        overrides: Texts `dotted.key=value`.
        root: A configuration folder to search first.
        folder: Of the run; default: a new one, runs/NAME/DATE_TIME.
        cell_only: Only robot, safety, cameras and teleop: no actor, no learner.
        remote_learner: The learner runs on the machine that the cell names.
        timeout_s: End the run after this long.
    """
    try:
        resolved = load_run(name, overrides, root)
        with prepared(resolved, folder if folder is not None else new_folder(resolved, Path("runs"))) as ready:
            return _supervise(resolved, ready, cell_only, remote_learner, timeout_s)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1


def _supervise(
    resolved: ResolvedRun, ready: PreparedRun, cell_only: bool, remote_learner: bool, timeout_s: float | None
) -> int:
    table = choose_table(resolved, ready.folder, cell_only=cell_only, remote_learner=remote_learner)
    names = ", ".join(spec.name for spec in table)
    print(f"{resolved.name}: {names}; DDS domain {ready.domain}; logs in {ready.log_folder}")
    if ready.domain != resolved.cell.dds_domain:
        print(f"domain {resolved.cell.dds_domain} is in use by another program; this run took {ready.domain}")
    supervisor = Supervisor(table, environment=ready.environment, log_folder=ready.log_folder, say=_say)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda caught, _: supervisor.end(f"{signal.Signals(caught).name} received"))
    try:
        with supervisor:
            code = supervisor.run(timeout_s)
    finally:
        for number, old in before.items():
            signal.signal(number, old)
    print(f"Next: robot-stack report {ready.folder}")
    return code


def _say(text: str) -> None:
    print(text, flush=True)
