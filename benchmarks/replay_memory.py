"""What a transition costs: resident memory of the replay, and disk of the episode store on rendered images.

Run: python -m benchmarks.replay_memory [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.replay_sample import FEATURES, cell_spec, fill
from robot_stack.config.resolve import load_run
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.types.event import Label
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell

SIDE_PX = 128


class StoreSink:
    """A StepSink straight into a store, flushed after each second of steps as in a run."""

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store

    def begin(self, header: EpisodeHeader) -> None:
        self._store.begin(header)

    def push(self, step: Step) -> None:
        self._store.append(step)
        if step.index % 10 == 9:
            self._store.flush()

    def label(self, label: Label) -> None:
        self._store.append_label(label)


def resident_bytes() -> int:
    """RSS of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def rss_per_transition(transitions: int) -> float:
    """Growth of this process by a replay with images, features, scores, demos and interventions."""
    spec = cell_spec(SIDE_PX)
    fill(Replay(spec, feature_size=2 * FEATURES), spec, 100, 2 * FEATURES)  # what is loaded and allocated once
    before = resident_bytes()
    replay = Replay(spec, feature_size=2 * FEATURES)
    fill(replay, spec, transitions, 2 * FEATURES)
    replay.draw(np.random.default_rng(0), 256, gamma=0.97)  # pools included
    return (resident_bytes() - before) / transitions


def rss_repeats(*, quick: bool) -> list[float]:
    """`rss_per_transition`, each time in a process of its own."""
    transitions, repeats = (2_000, 1) if quick else (10_000, 3)
    command = [sys.executable, "-m", "benchmarks.replay_memory", "--rss", str(transitions)]
    said = [
        subprocess.run(command, cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True).stdout
        for _ in range(repeats)
    ]
    return [float(text) for text in said]


def disk_shares(*, quick: bool) -> list[float]:
    """Bytes on disk over uint8 bytes of the images, one share per recorded episode of the simulator."""
    sizes = tuple(f"cameras.{name}.{side}={SIDE_PX}" for name in ("front", "wrist") for side in
                  ("width_px", "height_px", "policy_width_px", "policy_height_px"))  # fmt: skip
    resolved = load_run("peg_insert", sizes)
    spec = resolved.spec()
    cell = build_local_cell(resolved, seed=0)
    loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=100))
    frame_bytes = sum(camera.height_px * camera.width_px * 3 for camera in spec.cameras)
    shares = []
    with tempfile.TemporaryDirectory() as folder, EpisodeStore(Path(folder), spec, resolved.task.name) as store:
        for seed in range(2 if quick else 8):
            name = f"{seed:06d}"
            header = EpisodeHeader(
                episode_id=name, kind=EpisodeKind.DEMO, task=resolved.task.name, actor="benchmark",
                started_unix_s=0.0, seed=seed,
            )  # fmt: skip
            steps = loop.run_episode(header, None, StoreSink(store)).steps
            files = (Path(folder) / "episodes" / f"{name}.zarr").rglob("*")
            shares.append(sum(file.stat().st_size for file in files if file.is_file()) / ((steps + 1) * frame_bytes))
    return shares


def measure(quick: bool) -> dict[str, float]:
    """Medians over processes, and over episodes."""
    return {
        "rss_bytes_per_transition": statistics.median(rss_repeats(quick=quick)),
        "disk_over_memory": statistics.median(disk_shares(quick=quick)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer transitions and episodes")
    parser.add_argument("--rss", type=int, metavar="TRANSITIONS", help="print only the RSS of so many, once")
    options = parser.parse_args()
    if options.rss:
        print(rss_per_transition(options.rss))
        return
    for name, found in (
        ("rss_bytes_per_transition", rss_repeats(quick=options.quick)),
        ("disk_over_memory", disk_shares(quick=options.quick)),
    ):
        print(f"{name:28}{statistics.median(found):12.3f}   from {min(found):.3f} to {max(found):.3f}")


if __name__ == "__main__":
    main()
