"""Trains the imitation baseline of a run: behaviour cloning on the same demonstrations, trunk and network.

python -m robot_stack.learner.baseline --run runs/NAME/run.yaml
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from policies.acting import actor_metadata, pack_tensors
from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.learner import TensorBatch
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.step_labels import StepLabels
from robot_stack.replay.stored_episode import read_episode
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import FitRow, of_kind
from robot_stack.types.command import Source
from robot_stack.types.errors import StackError, StoreError


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
    settings = learning_settings(resolved)
    trained = settings.trained_encoder
    demos = [read_episode(paths.store.episode(name)) for name in fits[0].demo_ids]
    trunk = fitting.load_trunk(paths.trunk, spec, settings.device)
    images = {c.name: np.concatenate([d.arrays[f"image_{c.name}"][:-1] for d in demos]) for c in spec.cameras}
    proprio = np.concatenate([d.arrays["proprio"][:-1] for d in demos])
    actions = np.concatenate([d.arrays["executed"] for d in demos])
    labels = np.concatenate([StepLabels(spec).of(d.arrays, demo=True) for d in demos])
    shown = np.flatnonzero(~np.isin(np.concatenate([d.arrays["source"] for d in demos]), (Source.IDLE, Source.HOLD)))
    features = np.zeros((len(actions), 0), np.float16) if trained else trunk.encode(images)
    sizes = fitting.learner_spec(trunk, demos, spec, trained=trained)
    learner = BCLearner(sizes, config, seed=seed, device=settings.device)
    rng = np.random.default_rng(seed)
    for _ in range(config.pretrain_updates):
        rows = shown[rng.integers(len(shown), size=config.batch_size)]
        seen = {name: pixels[rows] for name, pixels in images.items()} if trained else None
        batch = TensorBatch.for_imitation(features[rows], proprio[rows], actions[rows], labels[rows], seen)
        learner.update(batch.to(settings.device))
    metadata = actor_metadata(trunk, algorithm="bc", config=config, trained=trained)
    tensors = pack_tensors(trunk, learner.actor_tensors(), learner.trunk_tensors())
    fitting.write_tensors(
        paths.policy("bc"),
        {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()},
        {**metadata, "version": "1", "spec_digest": spec.digest},
    )
    return paths.policy("bc")


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
