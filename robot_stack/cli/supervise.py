"""Runs a table of processes until it ends, for every verb that starts a cell, and tells where its page is."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from robot_stack.cli.extras import check_ros
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.access import ADDRESS_FILE
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import ProcessSpec
from robot_stack.runs.stage import Stage, StageName
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.ending import ending_signals

if TYPE_CHECKING:
    from robot_stack.datasets.catalogue import Entry


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
    resolved: ResolvedRun,
    ready: PreparedRun,
    table: Sequence[ProcessSpec],
    timeout_s: float | None = None,
    *,
    store: Path | None,
    onward: Callable[[int], str],
) -> int:
    """Run a table of processes, and on a signal that ends it stop them in order; returns the exit code.

    What came of it, and what to do next, is told on the page and at the terminal.

    Args:
        resolved: The run.
        ready: Its folder, environment and logs.
        table: The processes.
        timeout_s: After which they are stopped; None for never.
        store: Where the episodes of this start are recorded; None if that is on another machine.
        onward: Takes the exit code and returns what to run next.

    Raises:
        ModuleNotFoundError: If there is no ROS here, and the cell has nodes.
    """
    check_ros(resolved)
    names = ", ".join(spec.name for spec in table)
    print(f"{resolved.name}: {names}; DDS domain {ready.domain}; logs in {ready.log_folder}", flush=True)
    if (told := ready.taken_instead_of(resolved.cell.dds_domain)) is not None:
        print(told)
    began_s = time.time()
    supervisor = Supervisor(table, environment=ready.environment, log_folder=ready.log_folder, say=_say)
    before = {number: signal.getsignal(number) for number in ending_signals()}
    for number in before:
        signal.signal(number, lambda caught, _: supervisor.end(f"{signal.Signals(caught).name} received"))
    try:
        with supervisor:
            code = supervisor.run(timeout_s, PageAddress(ready.folder, _say).look)
            supervisor.stop_work()  # what is counted is complete, and nothing that moves the arm waits for it
            end = Stage(
                name=StageName.FAILED if code else StageName.ENDED,
                text=supervisor.ending or "",
                result=() if store is None else episodes_since(store, began_s),
                next_step=onward(code),
            )
            with suppress(OSError):  # of a full disk: then the page does not say how the run ended, and nothing else
                end.write(ready.folder)
        _say("\n".join((*end.result, f"Next: {end.next_step}")))
        return code
    finally:
        for number, old in before.items():
            signal.signal(number, old)


NAMES = {
    EpisodeKind.DEMO: ("demonstration", "demonstrations"),
    EpisodeKind.ONLINE: ("episode of online training", "episodes of online training"),
    EpisodeKind.EVAL: ("episode of the policy", "episodes of the policy"),
}


def episodes_since(root: Path, began_s: float) -> tuple[str, ...]:
    """Return a line per kind of episode: how many have begun since an instant and ended, and how they count.

    Args:
        root: Folder of episodes; nothing is said of one that is none yet, or that cannot be read.
        began_s: Seconds since the epoch.
    """
    outcomes = {kind: Counter[str]() for kind in NAMES}
    for entry in closed_episodes(root):
        counted = outcomes.get(entry.header.kind)
        if counted is not None and entry.header.started_unix_s >= began_s:
            counted[entry.outcome] += 1
    return tuple(
        f"{found.total()} {NAMES[kind][found.total() > 1]}: {', '.join(_counted(found))}"
        for kind, found in outcomes.items()
        if found
    )


def closed_episodes(root: Path) -> list[Entry]:
    """Return the episodes of a folder that have ended, whoever has it open; none where it cannot be read.

    How a run ended is told all the same then.
    """
    from robot_stack.datasets.catalogue import Catalogue
    from robot_stack.datasets.store_view import open_store

    try:
        catalogue = Catalogue(open_store(root))
        catalogue.refresh()
    except (StoreError, OSError):
        return []
    return catalogue.entries()


HOW = {
    "success": ("success", "successes"),
    "failure": ("failure", "failures"),
    "open": ("without a verdict",) * 2,
    "discard": ("discarded",) * 2,
}
"""In words, one and many, in the order in which they are told."""


def _counted(found: Counter[str]) -> list[str]:
    return [f"{found[name]} {words[found[name] > 1]}" for name, words in HOW.items() if found[name]]


def _say(text: str) -> None:
    with suppress(OSError):  # of a full disk under `nohup`'s file: what is said there ends no run
        print(text, flush=True)
