"""A cell that lives for as long as a command looks at it, and the operator's answers at its terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from robot_stack.cli.env import environment_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes
from robot_stack.runs.paths import RunPaths

HANGS_S, ASLEEP = 5.0, 0.02
"""A process that is about to start and has worked less than this share of so long will not; it waits for something."""
STARTS_S = 40.0
"""For which a cell that others have started may still be starting."""


class Enter:
    """The Enter key of a terminal, asked without waiting whether it was pressed since last time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ended = False

    @classmethod
    def on_terminal(cls) -> Enter | None:
        """Return the Enter key of this process's own terminal; None if it has none."""
        return cls(sys.stdin) if sys.stdin.isatty() else None

    def ask(self, text: str) -> None:
        """Say what Enter does from now on; what was typed before is no answer to it."""
        say(text)
        while self.pressed():
            pass

    def pressed(self) -> bool:
        """Return True once per line that was typed; never wait."""
        if self._ended or not select.select([self._stream], [], [], 0.0)[0]:
            return False
        line = self._stream.readline()
        self._ended = line == ""
        return not self._ended


class CellWatch:
    """Watcher of the processes of a cell that a command has started; of one that was running it knows nothing.

    Args:
        supervisor: Of the processes; None where others have started them.
        age_s: How long ago that was.
    """

    def __init__(self, supervisor: Supervisor | None, *, age_s: float = 0.0) -> None:
        self._supervisor = supervisor
        self._wait_s = HANGS_S if age_s > STARTS_S else STARTS_S
        self._worked: dict[str, tuple[float, float]] = {}
        self._begun_s = time.monotonic()

    @property
    def failures(self) -> Mapping[str, str]:
        """Return, process by process, how each that failed has ended."""
        return {} if self._supervisor is None else self._supervisor.failures

    def alive(self) -> Sequence[str]:
        """Return the processes that live; none of a cell that others have started."""
        return () if self._supervisor is None else self._supervisor.alive()

    def ending(self) -> str:
        """Return why the cell has ended, or "" while it goes on; call it often."""
        if self._supervisor is None:
            return ""
        self._supervisor.step()
        return self._supervisor.ending or ""

    def hang(self, names: Sequence[str]) -> bool:
        """Return whether nothing more will come of these processes: none has worked for `HANGS_S`. Call it often.

        Of processes that others have started a while ago, it is enough that they are not heard of for so long.
        """
        now_s = time.monotonic()
        if self._supervisor is None:
            return now_s - self._begun_s >= self._wait_s
        asleep = []
        for name in names:
            used_s = self._supervisor.cpu_s(name)
            since_s, then_s = self._worked.setdefault(name, (now_s, used_s))
            over = now_s - since_s >= HANGS_S
            asleep.append(over and 0.0 <= used_s - then_s < ASLEEP * (now_s - since_s))
            if over and not asleep[-1]:
                self._worked[name] = (now_s, used_s)
        return bool(asleep) and all(asleep)


@contextmanager
def own_cell(
    resolved: ResolvedRun,
    folder: Path,
    *,
    running: bool,
    stand_ins: Mapping[str, str] | None = None,
) -> Iterator[CellWatch]:
    """Put this process into the environment of a cell, and start its processes unless they run already.

    Args:
        folder: Of the run that is going on, or where logs of the processes started here go.
        stand_ins: Module of a process -> the module that takes its place.

    Yields:
        What watches the processes.
    """
    before = dict(os.environ)
    with ExitStack() as stack:
        stack.callback(_restore, before)
        if running:
            os.environ.update(environment_of(folder))
            begun_s = RunPaths(folder).domain.stat().st_mtime  # each start writes it, and `environment_of` has read it
            yield CellWatch(None, age_s=time.time() - begun_s)
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
        yield CellWatch(supervisor)


def say(text: str) -> None:
    """Print progress to stderr, for the operator at the terminal."""
    print(text, file=sys.stderr, flush=True)


def _restore(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
