"""A fit in a process of its own that yields to all others: what it needs goes in as bytes, what it says comes back.

Beside online training a fit is done elsewhere because threads of one process share the interpreter: on two cores that
the robot's processes use too, a fit in a thread takes a third of the updates (docs/dry-run.md).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from robot_stack.learner import fitting
from robot_stack.types.errors import FitError, RewardError, StackError, StoreError

NICE = 10
"""Updates and the robot come first; a fit may take its time."""
STOP_S = 60.0
"""Longest time in which a thread that fits, or takes in what arrives, ends once it is told to."""


def fit_elsewhere(module: str, job: bytes, stopping: threading.Event, *, of: str) -> Any:
    """Do a job by a module whose main calls `answer`, and wait for it; returns what it says.

    Args:
        module: Its dotted name.
        job: What it reads.
        stopping: Ends it.
        of: What is fitted, for the error.

    Raises:
        Stopped: If `stopping` was set before it was done; nothing of it is kept.
        FitError: If there is nothing to learn from, or the process was killed or is broken, which the
            log tells.
        StoreError: Whatever else of this project's errors ended it, such as a disk that refuses.
    """
    launcher = (sys.executable, "-m", "robot_stack.processes.child", "--nice", str(NICE), "--")
    own = (sys.executable, "-m", module)
    with subprocess.Popen((*launcher, *own), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        done = threading.Event()
        ender = threading.Thread(target=_end, args=(process, stopping, done), name="fit_ender", daemon=True)
        ender.start()
        try:
            said, _ = process.communicate(job)
        finally:
            done.set()
            ender.join()
    if stopping.is_set():
        raise fitting.Stopped
    if process.returncode < 0:
        raise FitError(
            f"process that fits the {of} was ended by signal {-process.returncode}, must end by itself; is the "
            "memory short?"
        )
    if process.returncode > 0:
        raise FitError(
            f"process that fits the {of} ended with exit code {process.returncode}, must end by itself; its own words "
            "are in the log, report them"
        )
    answer = json.loads(said)
    if "refused" in answer:
        raise FitError(answer["refused"])
    if "failed" in answer:
        raise StoreError(answer["failed"])
    return answer["fitted"]


def _end(process: subprocess.Popen[bytes], stopping: threading.Event, done: threading.Event) -> None:
    while not done.wait(0.1):
        if stopping.is_set():
            process.kill()
            return


def answer(fit: Callable[[bytes], Any]) -> None:
    """Read a job, do it, and write what it returns, or the error of this project that prevented it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the learner's, who ends this process
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no part of the answer
    said: dict[str, Any]
    try:
        said = {"fitted": fit(sys.stdin.buffer.read())}
    except RewardError as error:
        said = {"refused": str(error)}
    except StackError as error:
        said = {"failed": str(error)}
    except MemoryError:
        said = {"refused": "memory is too short for the fit, must hold what it is fitted on; free some"}
    with suppress(BrokenPipeError):  # nobody waits any more
        json.dump(said, answers)
        answers.flush()
