"""Trains the imitation baseline of a run: behaviour cloning on the same demonstrations, trunk and network.

python -m robot_stack.learner.baseline --run runs/NAME/run.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from policies.acting import actor_metadata, pack_tensors
from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.encoders.trunk import Trunk, encode_frames
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.data.batches import make_batches
from robot_stack.learner.settings import learning_settings
from robot_stack.learner.update_loop import next_batch
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import FitRow, of_kind
from robot_stack.types.errors import StackError, StoreError
from robot_stack.types.event import Label, LabelSource, Verdict


def train_bc(resolved: ResolvedRun, folder: Path, config: BCConfig) -> Path:
    """Train behaviour cloning on the demonstrations of a run's trunk; returns the file of the policy.

    Raises:
        StoreError: If the run has not got as far as its fit.
    """
    paths = RunPaths(folder)
    fits = of_kind(read_rows(paths.metrics).rows, FitRow)
    if not fits:
        raise StoreError(f"run {folder} has no fitted encoder, must have one; finish its demonstrations first")
    spec, seed = resolved.spec(), resolved.run.seed
    settings = replace(learning_settings(resolved), algorithm="bc", config=config)
    trained = settings.trained_encoder
    demos = [read_episode(paths.store.episode(name)) for name in fits[0].demo_ids]
    first = paths.first_trunk if paths.first_trunk.exists() else paths.trunk  # a later one saw online training too
    trunk = fitting.load_trunk(first, spec, settings.device)
    replay = replay_of(demos, None if trained else trunk, resolved)
    sizes = fitting.learner_spec(trunk, demos, spec, trained=trained)
    learner = BCLearner(sizes, config, seed=seed, device=settings.device)
    batches, rng = make_batches(replay, settings.device), np.random.default_rng(seed)
    for _ in range(config.pretrain_updates):
        learner.update(next_batch(batches, rng, settings, gamma=settings.config.sampling.gamma))
    metadata = actor_metadata(trunk, algorithm="bc", config=config, trained=trained)
    tensors = pack_tensors(trunk, learner.actor_tensors(), learner.trunk_tensors())
    fitting.write_tensors(
        paths.policy("bc"),
        {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()},
        {**metadata, "version": "1", "spec_digest": spec.digest},
    )
    return paths.policy("bc")


def replay_of(demos: Sequence[StoredEpisode], trunk: Trunk | None, resolved: ResolvedRun) -> Replay:
    """Load demonstrations, all successes, into a replay as a run's learner does: batches are then drawn as there.

    Args:
        demos: With their images.
        trunk: Frozen encoder; None where it is trained, from the replay's images.
        resolved: The run.
    """
    replay = Replay(
        resolved.spec(),
        feature_size=trunk.feature_size if trunk else 0,
        keep_images=trunk is None,
        task_ids=resolved.task.equal_ids,
    )
    for demo in demos:
        episode_id = demo.header.episode_id
        replay.add_episode(demo)
        if trunk is not None:
            images = {camera.name: demo.arrays[IMAGE_PREFIX + camera.name] for camera in demo.spec.cameras}
            replay.set_features(episode_id, encode_frames(trunk, images, len(demo.arrays["proprio"])))
        replay.add_label(
            Label(episode_id=episode_id, verdict=Verdict.SUCCESS, source=LabelSource.OPERATOR, stamp_unix_s=0.0)
        )
    return replay


def main(arguments: list[str] | None = None) -> int:
    """Train the imitation baseline of a run and save it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="robot_stack.learner.baseline", description="Train the imitation baseline.")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=BCConfig().pretrain_updates)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        train_bc(load_resolved(options.run), options.run.parent, BCConfig(pretrain_updates=options.updates))
    except StackError as error:
        print(f"baseline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
