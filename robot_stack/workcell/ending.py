"""The signals that end a process in order, whoever sends them: an operator, a supervisor, a terminal that closes."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a program in order: Ctrl-C, SIGTERM, and SIGHUP of a terminal that closes.

    The last one stays ignored where it is: `nohup` lets a program outlive its terminal.
    """
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return signal.SIGINT, signal.SIGTERM, *(() if outlives else (signal.SIGHUP,))


def end_in_peace() -> None:
    """Ignore further signals: a second Ctrl-C while the interpreter ends would make a clean end a death."""
    for number in ending_signals():
        signal.signal(number, signal.SIG_IGN)
