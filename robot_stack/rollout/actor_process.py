"""What the processes of an actor share, whatever its cell: their arguments, and how they end."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from robot_stack.transport.client import LearnerClient
from robot_stack.types.errors import MISCONFIGURED, ConfigError, StackError
from robot_stack.workcell.ending import ending_signals
from robot_stack.workcell.thread_watch import ThreadWatch

DELIVER_S = 30.0
"""Longest time in which a learner that is busy takes in what an actor recorded last; so long it waits for actors."""


def actor_parser(prog: str) -> argparse.ArgumentParser:
    """Make the parser of an actor's command line."""
    parser = argparse.ArgumentParser(prog=prog, description="The actor process.")
    parser.add_argument("--run", type=Path, required=True, help="resolved run, as saved in the run folder")
    parser.add_argument("--learner", default="", help="host:port of the learner; default: the cell's")
    parser.add_argument("--id", default="actor", help="unique among the actors of a run")
    return parser


def run_until_stopped(work: Callable[[threading.Event], str]) -> int:
    """Work until it is done, a signal comes or a thread fails, and return the exit code of the process.

    Args:
        work: Given what a signal sets; returns why it ended early, or "".
    """
    stop = threading.Event()
    for number in ending_signals():
        signal.signal(number, lambda *_: stop.set())
    threads = ThreadWatch()
    try:
        why = work(stop)
    except StackError as error:
        print(f"actor: {error}", file=sys.stderr, flush=True)
        return MISCONFIGURED if isinstance(error, ConfigError) else 1
    except Exception:
        traceback.print_exc()
        return 1
    if why:
        print(f"actor: {why}", file=sys.stderr, flush=True)
    return int(threads.failure is not None or (bool(why) and not stop.is_set()))


def deliver_and_close(client: LearnerClient, stop: threading.Event) -> None:
    """Deliver what was recorded, for at most `DELIVER_S` or until a signal comes; say so if something stays behind."""
    deadline_s = time.monotonic() + DELIVER_S
    while not (client.wait_acked(0.2) or client.refusal or stop.is_set() or time.monotonic() > deadline_s):
        pass
    if not client.close():
        text = (
            "learner has not taken in all that was recorded; the rest is in the spool, start the actor again to send it"
        )
        print(f"actor: {text}", file=sys.stderr, flush=True)
