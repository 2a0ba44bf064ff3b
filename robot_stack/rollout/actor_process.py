"""What the processes of an actor share, whatever its cell: their arguments, and how they end."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from robot_stack.types.errors import MISCONFIGURED, ConfigError, StackError
from robot_stack.workcell.thread_watch import ThreadWatch


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
    for number in (signal.SIGINT, signal.SIGTERM):
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
