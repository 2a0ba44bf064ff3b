"""A cell that lives for as long as a command looks at it, and the operator's answers at its terminal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from robot_stack.cli.env import environment_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes


class Enter:
    """The Enter key of a terminal, asked without waiting whether it was pressed since last time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ended = False

    @classmethod
    def on_terminal(cls) -> Enter | None:
        """Return the Enter key of this process's own terminal; None if it has none."""
        return cls(sys.stdin) if sys.stdin.isatty() else None

    def pressed(self) -> bool:
        """Return True once per line that was typed; never wait."""
        if self._ended or not select.select([self._stream], [], [], 0.0)[0]:
            return False
        line = self._stream.readline()
        self._ended = line == ""
        return not self._ended


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
        folder: Of the run that is going on, or where logs of the processes started here go.
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
