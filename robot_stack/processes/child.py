"""Start of a process of the table by whoever launches it: it ends with its parent, at the row's priority.

    python -m robot_stack.processes.child --nice 10 --realtime 0 -- PROGRAM ARGUMENT ...

becomes PROGRAM, for launchers that cannot prepare a child themselves. Loads no library but the standard one.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import signal
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from robot_stack.workcell.ending import ending_signals

PR_SET_PDEATHSIG = 1
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Number of the system call, by machine."""
SLICE_NS = 100_000
"""Shortest turn that a process can ask for; who asks for short turns is given them sooner (Linux 6.12 and later)."""
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Get a SIGTERM when the parent of this process dies: a killed launcher leaves no robot process behind."""
    parent = os.getppid()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let each of `ending_signals` raise KeyboardInterrupt as Ctrl-C does: who started processes then ends them."""
    others = [number for number in ending_signals() if number != signal.SIGINT]
    before = [(number, signal.signal(number, signal.default_int_handler)) for number in others]
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old)


def take_priority(nice: int, realtime: int) -> None:
    """Take the niceness, and the priority before all ordinary processes, where the user may have it.

    Where he may not, or the kernel knows none, ask for short turns instead: every user may, and a process that needs a
    millisecond of every ten is then not kept waiting for the long turns of others.
    """
    with suppress(OSError):
        os.nice(nice)
    if not realtime:
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(realtime))
    except OSError:  # not permitted, or not known to the kernel (gVisor)
        ask_for_short_turns()


def ask_for_short_turns() -> bool:
    """Ask the scheduler for the shortest slice; return whether it knows what that is."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    return bool(LIBC.syscall(number, 0, attributes, 0) == 0)


def wrapped(argv: Sequence[str], *, python: str, nice: int, realtime: int) -> tuple[str, ...]:
    """Return the command line that becomes `argv` after `die_with_parent` and `take_priority`."""
    priority = ("--nice", str(nice), "--realtime", str(realtime))
    return (python, "-m", "robot_stack.processes.child", *priority, "--", *argv)


def main() -> None:
    """Become the program of the command line; never return."""
    parser = argparse.ArgumentParser(prog="robot_stack.processes.child", description="Starts a process of the table.")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--realtime", type=int, default=0)
    parser.add_argument("argv", nargs="+", metavar="PROGRAM")
    options = parser.parse_args()
    die_with_parent()
    take_priority(options.nice, options.realtime)
    os.execvp(options.argv[0], options.argv)


if __name__ == "__main__":
    main()
