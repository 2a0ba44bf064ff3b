"""Runs a table of processes until it ends, for every verb that starts a cell."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from robot_stack.cli.page_address import PageAddress
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec


def supervise(
    resolved: ResolvedRun, ready: PreparedRun, table: Sequence[ProcessSpec], timeout_s: float | None = None
) -> int:
    """Run a table of processes, and on Ctrl-C or SIGTERM stop them in order; returns the exit code."""
    names = ", ".join(spec.name for spec in table)
    print(f"{resolved.name}: {names}; DDS domain {ready.domain}; logs in {ready.log_folder}", flush=True)
    if ready.domain != resolved.cell.dds_domain:
        print(f"domain {resolved.cell.dds_domain} is in use by another program; this run took {ready.domain}")
    supervisor = Supervisor(table, environment=ready.environment, log_folder=ready.log_folder, say=_say)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda caught, _: supervisor.end(f"{signal.Signals(caught).name} received"))
    try:
        with supervisor:
            return supervisor.run(timeout_s, PageAddress(ready.folder, _say).look)
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _say(text: str) -> None:
    print(text, flush=True)
