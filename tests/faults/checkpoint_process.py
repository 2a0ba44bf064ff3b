"""Kills a writer of checkpoints again and again and looks at what is left.

    python checkpoint_process.py FOLDER KILLS

Prints how often the newest checkpoint was not whole, or older than what the writer had called written.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from robot_stack.learner.checkpoint import CheckpointFolder, pack

SIZE = 200_000


def write_forever(folder: CheckpointFolder, first: int, told: int) -> None:
    """One after the other, each said once it is written."""
    generator = torch.Generator().manual_seed(first)
    for step in range(first, first + 10_000):
        weights = torch.rand(SIZE, generator=generator)
        digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
        folder.write(step, pack({"step": step, "weights": weights, "sha256": digest}, success=0.5), success=0.5)
        os.write(told, f"{step}\n".encode())


def main(path: Path, kills: int) -> int:
    torch.set_num_threads(1)
    rng, step, bad, interrupted = random.Random(18), 1, 0, 0
    for _ in range(kills):
        hear, told = os.pipe()
        child = os.fork()
        if child == 0:
            write_forever(CheckpointFolder(path), step, told)
        os.close(told)
        time.sleep(rng.uniform(0.001, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(hear) as said:
            written = [int(line) for line in said if line.endswith("\n")]
        interrupted += any(path.glob("*.partial"))
        state = CheckpointFolder(path).load_latest()
        if state is None:
            bad += bool(written)
            continue
        whole = hashlib.sha256(state["weights"].numpy().tobytes()).hexdigest() == state["sha256"]
        bad += not whole or state["step"] < max(written, default=0)
        step = state["step"] + 1
    print(f"{bad} {interrupted} {step}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
