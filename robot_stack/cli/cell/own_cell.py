"""A cell that lives for as long as a command looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from robot_stack.cli.env import environment_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes


@contextmanager
def own_cell(
    resolved: ResolvedRun,
    folder: Path,
    *,
    running: bool,
    failures: MutableMapping[str, str] | None = None,
    stand_ins: Mapping[str, str] | None = None,
) -> Iterator[Callable[[], str]]:
    """Put this process into the environment of a cell, and start its processes unless they run already.

    Args:
        resolved: The run.
        folder: Of the run that is going on, or where logs of the processes started here go.
        running: Whether they run.
        failures: Gets, process by process, how each that failed has ended.
        stand_ins: Module of a process -> the module that takes its place.

    Yields:
        A function that returns why the cell has ended, or "" while it goes on; call it often.
    """
    before = dict(os.environ)
    with ExitStack() as stack:
        stack.callback(_restore, before)
        if running:
            os.environ.update(environment_of(folder))
            yield lambda: ""
            return
        ready = stack.enter_context(prepared(resolved, folder))
        os.environ.update(ready.environment)
        others = stand_ins or {}
        table = tuple(
            replace(row, argv=tuple(others.get(word, word) for word in row.argv))
            for row in cell_processes(resolved, folder)
        )
        supervisor = Supervisor(table, environment=ready.environment, log_folder=ready.log_folder, say=say)
        stack.enter_context(supervisor)

        def ending() -> str:
            supervisor.step()
            if failures is not None:
                failures.update(supervisor.failures)
            return supervisor.ending or ""

        yield ending


def say(text: str) -> None:
    """Print progress to stderr, for the operator at the terminal."""
    print(text, file=sys.stderr, flush=True)


def _restore(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
