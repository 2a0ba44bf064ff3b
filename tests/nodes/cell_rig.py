"""A cell over DDS: real processes on loopback, a domain that nothing else uses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes

START_S = 60.0


def wait_until(
    condition: Callable[[], object], timeout_s: float, what: str, instead: Callable[[], str] = lambda: ""
) -> None:
    """Returns as soon as the condition holds; fails if it never does, and says what was there instead."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} not within {timeout_s} s {instead()}"
        time.sleep(0.005)


@contextmanager
def running_cell(run: ResolvedRun, folder: Path) -> Iterator[tuple[object, Supervisor]]:
    """RosCell and supervisor of a started cell."""
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    from robot_stack.control.safety.seal import WireKey
    from robot_stack.nodes.actor.cell import RosCell

    with prepared(run, folder) as ready:
        before = dict(os.environ)
        os.environ.update(ready.environment)
        try:
            table = cell_processes(run, folder)
            with Supervisor(table, environment=ready.environment, log_folder=ready.log_folder) as supervisor:
                cell = RosCell(run, namespace=run.run.cell, key=WireKey.of_folder(folder))
                try:
                    cell.connect(START_S)
                    yield cell, supervisor
                finally:
                    cell.close()
        finally:
            os.environ.clear()
            os.environ.update(before)
