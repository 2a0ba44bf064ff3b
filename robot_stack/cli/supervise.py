"""Runs a table of processes until it ends, for every verb that starts a cell, and tells where its page is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from robot_stack.cli.extras import check_ros
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.access import ADDRESS_FILE
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec
from robot_stack.runs.stage import Stage, StageName


class PageAddress:
    """Watcher of a run's folder for the page's address; call `look` often.

    Args:
        folder: Of the run; what an earlier start wrote there does not count.
        say: Told the address, again if it changes.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._path = folder / ADDRESS_FILE
        self._say = say
        self._from_s = time.time()
        self._told = ""

    def look(self) -> None:
        """Say the address, if there is a new one."""
        try:
            if self._path.stat().st_mtime < self._from_s:
                return
            address = self._path.read_text().strip()
        except OSError:
            return
        if address and address != self._told:
            self._told = address
            self._say(f"page: {address}")


def supervise(
    resolved: ResolvedRun, ready: PreparedRun, table: Sequence[ProcessSpec], timeout_s: float | None = None
) -> int:
    """Run a table of processes, and on Ctrl-C or SIGTERM stop them in order; returns the exit code.

    Raises:
        ModuleNotFoundError: If there is no ROS here, and the cell has nodes.
    """
    check_ros(resolved)
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
            code = supervisor.run(timeout_s, PageAddress(ready.folder, _say).look)
            end = Stage(name=StageName.FAILED if code else StageName.ENDED, text=supervisor.ending or "")
            with suppress(OSError):  # of a full disk: then the page does not say how the run ended, and nothing else
                end.write(ready.folder)
            return code
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _say(text: str) -> None:
    print(text, flush=True)
