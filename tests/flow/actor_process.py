"""An actor process on a cell in its own process, at no more than three times the speed of a real robot.

    python actor_process.py RUN_YAML HOST:PORT

Ends by SIGTERM after the running episode, or at once when its parent closes stdin.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from robot_stack.config.resolve import load_resolved
from robot_stack.rollout.actor import Actor
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.client import LearnerClient
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import LocalCell

SPEED = 3.0


class PacedClock:
    """Simulated time that does not run away from the learner."""

    def __init__(self, cell: LocalCell) -> None:
        self._cell = cell

    def now_ns(self) -> int:
        return self._cell.now_ns()

    def sleep_until_ns(self, when_ns: int) -> None:
        left_s = (when_ns - self._cell.now_ns()) / 1e9
        due_s = time.monotonic() + left_s / SPEED
        self._cell.sleep_until_ns(when_ns)
        time.sleep(max(0.0, due_s - time.monotonic()))


def main(run: Path, address: str) -> int:
    torch.set_num_threads(1)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    resolved = load_resolved(run)
    folder = run.parent / "actor"
    cell = build_local_cell(resolved, seed=1)
    client = LearnerClient(
        address, resolved.spec(), resolved.task.name, "actor", folder / "actor.spool", LinkToken.read(run.parent)
    )
    client.connect()
    try:
        why = Actor(resolved, folder, cell, PacedClock(cell), client, "actor").run(stop)
    finally:
        delivered = client.close(timeout_s=20.0)
    print(why, flush=True)
    return 0 if delivered else 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
