"""Seconds from starting the learner on the folder of a killed run to its first update.

Run: python -m benchmarks.resume [--quick]

50,000 transitions in 700 episodes, two cameras of 64x64, the embedded trunk, its features in the cache as a run
leaves them. A learner makes trunk, reward model, features and checkpoint, and is killed with SIGKILL. Then it is
started and killed again three times; the median counts. The page cache is warm: what a killed learner wrote an
instant ago is still in memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from benchmarks.kills import LearnerProcess
from benchmarks.tiny_run import header_of, steps_of, write_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Source
from robot_stack.types.transition import EndReason

DEMOS = 2
EPISODES, QUICK_EPISODES = 700, 40
STEPS = 72
STARTS = 3
RUN = (
    f"training.demos={DEMOS}",
    "encoder.settings.steps=5",
    "reward.settings.steps=20",
    "algorithm.settings.pretrain_updates=20",
    "algorithm.settings.utd=1.0",
)


def fill(folder: Path, resolved: ResolvedRun, episodes: int) -> None:
    """Record that many episodes, the first ones demonstrations."""
    store = EpisodeStore(folder / "store", resolved.spec(), resolved.task.name)
    with patch("os.fsync"), store:  # nobody pulls the plug meanwhile, and it takes a tenth of the time
        for number in range(episodes):
            demo = number < DEMOS
            name = f"{number:06d}-{'demo' if demo else 'online'}-synthetic"
            store.begin(header_of(resolved, name))
            end = EndReason.SUCCESS if demo or number % 3 == 0 else EndReason.TIMEOUT
            sources = [Source.HUMAN if demo or t < 10 else Source.POLICY for t in range(STEPS)]
            for step in steps_of(resolved.spec(), name, STEPS, end, sources=sources):
                store.append(step)


def first_life(folder: Path, episodes: int) -> None:
    """Fit, encode, train a little, and be killed."""
    learner = LearnerProcess(folder)
    try:
        learner.until(lambda status: status.phase == "training", "training")
        learner.wait(lambda: len(list(folder.glob("features/*/*.safetensors"))) == episodes, "done with the features")
    finally:
        learner.kill()


def life(folder: Path) -> float:
    """Start, and be killed after the first update; returns the seconds between."""
    before = CheckpointFolder(folder / "checkpoints").steps()[-1]
    started_s = time.monotonic()
    learner = LearnerProcess(folder)
    try:
        learner.until(lambda status: status.phase == "training" and status.counters["updates"] > before, "updating")
        return time.monotonic() - started_s
    finally:
        learner.kill()


def measure(quick: bool) -> dict[str, float]:
    """resume_s: seconds from the start of the process to its first update, median of three."""
    episodes = QUICK_EPISODES if quick else EPISODES
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        resolved = write_run(folder, *RUN, side_px=64)
        fill(folder, resolved, episodes)
        first_life(folder, episodes)
        return {"resume_s": statistics.median(life(folder) for _ in range(STARTS))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:.2f}")


if __name__ == "__main__":
    main()
