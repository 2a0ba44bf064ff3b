"""The learner process: collects demonstrations, fits encoder and reward, then trains until it is enough.

    python -m robot_stack.learner.process --run runs/NAME/run.yaml
    torchrun --nproc-per-node 2 -m -- robot_stack.learner.process --run runs/NAME/run.yaml

SIGKILL at any instant costs at most a second of steps; a restart goes on from the last checkpoint and all episodes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.distributed import follow, join
from robot_stack.learner.host_memory import keep_freed_memory
from robot_stack.learner.training import Training
from robot_stack.runs.metrics import WANDB_MODES, usual_wandb_mode
from robot_stack.types.errors import MISCONFIGURED, UNPREPARED, ConfigError, ResumeError, StackError
from robot_stack.workcell.ending import ending_signals
from robot_stack.workcell.thread_watch import ThreadWatch

LEAVE_S = 30.0
"""Longest time in which actors reset, hear that the run is over, and leave."""


DESERTED_S = 3.0
"""Time for whoever looks, once every actor has left of its own accord, as it does that is told of the end."""


def leave_after_s(resolved: ResolvedRun) -> float:
    """Return how long a learner that is done goes on answering while actors are there, in seconds.

    An actor asks between two episodes whether the run is over; one that finds nobody goes on by itself.
    """
    return LEAVE_S + 2 * resolved.task.episode_steps / resolved.run.rate_hz


def main(arguments: list[str] | None = None) -> int:
    """Run the learner until training is over or a signal comes; returns the exit code."""
    parser = argparse.ArgumentParser(prog="robot_stack.learner.process", description="The learner process.")
    parser.add_argument("--run", type=Path, required=True, help="resolved run, as saved in the run folder")
    parser.add_argument("--address", default="", help="host:port to serve at; default: the cell's, port 0: any free")
    text = "default: WANDB_MODE, else offline where wandb is installed"
    parser.add_argument("--wandb", default=usual_wandb_mode(), choices=WANDB_MODES, help=text)
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in ending_signals():  # only the first of several processes decides when it ends
        signal.signal(number, lambda *_: stop.set())
    threads = ThreadWatch()
    keep_freed_memory()
    training: Training | None = None
    try:
        resolved = load_resolved(options.run)
        ranks = join()
        if ranks.index > 0:
            follow(resolved, options.run.parent, ranks)
            return 0
        training = Training(resolved, options.run.parent, wandb_mode=options.wandb, ranks=ranks)
        training.serve(options.address or resolved.cell.learner_address or "127.0.0.1:0")
        try:
            training.run(stop)
            while not stop.wait(0.2):  # keep answering until the actors have left
                done_s = time.monotonic() - training.finished_s
                if done_s > leave_after_s(resolved) or min(done_s, training.backend.roster.deserted_s()) > DESERTED_S:
                    break
        finally:
            training.close()
    except Exception as error:
        if not isinstance(error, StackError):
            traceback.print_exc()
        else:
            print(f"learner: {error}", file=sys.stderr, flush=True)
        if isinstance(error, ConfigError | ResumeError):  # what cannot be gone on with now cannot be later
            return MISCONFIGURED
        return 1 if training is not None and training.has_trained else UNPREPARED
    return 0 if threads.failure is None else 1


if __name__ == "__main__":
    code = main()
    if "WORLD_SIZE" in os.environ:  # gloo's threads may abort an interpreter that takes its time to end
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
