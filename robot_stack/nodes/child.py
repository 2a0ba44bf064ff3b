"""How a process of the table lives under whoever started it: it ends with its parent, at the row's priority.

    python -m robot_stack.nodes.child --nice 10 --realtime 0 -- PROGRAM ARGUMENT ...

becomes PROGRAM, for launchers that cannot prepare a child themselves. Loads nothing but the standard library.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """SIGTERM to this process when its parent dies: a killed launcher leaves no robot process behind."""
    parent = os.getppid()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def end_in_peace() -> None:
    """No further signal counts: a second Ctrl-C while the interpreter ends would turn a clean end into a death."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def take_priority(nice: int, realtime: int) -> None:
    """Added niceness, and a priority before all ordinary processes, each where the user may have it."""
    with suppress(PermissionError):
        os.nice(nice)
    if realtime:
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(realtime))


def wrapped(argv: Sequence[str], *, python: str, nice: int, realtime: int) -> tuple[str, ...]:
    """The command line that becomes `argv` after `die_with_parent` and `take_priority`."""
    priority = ("--nice", str(nice), "--realtime", str(realtime))
    return (python, "-m", "robot_stack.nodes.child", *priority, "--", *argv)


def main() -> None:
    """Never returns: another program runs on in this process."""
    parser = argparse.ArgumentParser(prog="robot_stack.nodes.child", description="Starts a process of the table.")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--realtime", type=int, default=0)
    parser.add_argument("argv", nargs="+", metavar="PROGRAM")
    options = parser.parse_args()
    die_with_parent()
    take_priority(options.nice, options.realtime)
    os.execvp(options.argv[0], options.argv)


if __name__ == "__main__":
    main()
