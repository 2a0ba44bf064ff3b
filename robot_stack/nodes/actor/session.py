"""A process with a control loop of its own on a cell, without a learner: what `recorder` and `deployed` share."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rclpy.utilities import remove_ros_args

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.journal import said_before
from robot_stack.console.verdicts import UNDO_NS
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes.actor.cell import RosCell
from robot_stack.processes.child import die_with_parent
from robot_stack.processes.table import namespace_of
from robot_stack.rollout.base.cell import with_base
from robot_stack.types.errors import StackError
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Cell
from robot_stack.workcell.ending import end_in_peace, ending_signals
from robot_stack.workcell.thread_watch import ThreadWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of a process on a cell: its run, its arguments, the connected cell and the signal to stop.

    Attributes:
        resolved: The run.
        folder: Of the run.
        options: The process's own arguments.
        cell: Connected, with the run's base policy.
        stop: Set by a signal.
    """

    resolved: ResolvedRun
    folder: Path
    options: argparse.Namespace
    cell: Cell
    stop: threading.Event

    def said(self, final: bool) -> list[Label]:
        """Return what operators said at the page and can no longer take back; finally all of it, see `Said`."""
        return said_before(self.folder, math.inf if final else time.time() - UNDO_NS / 1e9)

    def say(self, text: str) -> None:
        """Print a line for the operator at the terminal, to stderr, which the process table passes on."""
        with suppress(OSError):  # of a terminal that has closed: the episodes are on disk all the same
            print(text, file=sys.stderr, flush=True)


def run_session(
    name: str,
    work: Callable[[Session], int],
    add_arguments: Callable[[argparse.ArgumentParser], None],
    argv: Sequence[str] | None = None,
) -> int:
    """Connect to the cell, work on it until done or a signal comes, and return the exit code of the process."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog=f"python -m robot_stack.nodes.{name}")
    parser.add_argument("--run", type=Path, required=True, help="resolved run, as saved in the run folder")
    parser.add_argument("--managed", action="store_true", help="wait until a bring-up makes it active")
    add_arguments(parser)
    options = parser.parse_args(remove_ros_args(sys.argv[1:] if argv is None else list(argv)))
    sys.setswitchinterval(0.001)  # the thread that takes messages must not keep the control loop waiting
    stop = threading.Event()
    for number in ending_signals():
        signal.signal(number, lambda *_: stop.set())
    threads = ThreadWatch()
    try:
        resolved = load_resolved(options.run)
        key = WireKey.of_folder(options.run.parent)
        with (
            RosCell(
                resolved, namespace=namespace_of(resolved), key=key, managed=options.managed, stopping=stop.is_set
            ) as cell,
            with_base(resolved, cell, waits=False, stopping=stop.is_set) as based,
        ):
            folder = options.run.parent
            code = work(Session(resolved=resolved, folder=folder, options=options, cell=based, stop=stop))
            return code if threads.failure is None else 1
    except StackError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
    except Exception:
        traceback.print_exc()
    finally:
        end_in_peace()
    return int(threads.failure is not None or not stop.is_set())
