"""Which settings of the critics rank actions best? Each is trained anew on the steps that a finished run recorded.

Run: python -m benchmarks.evidence.critics RUN [--updates 4000] [--states 50] [--only NAME ...], half an hour on a core.

The policy is the run's published one and stays, so that all critics have the same values to learn, and the same
Monte-Carlo returns to be held against. A critic that ranks well here need not make a good policy, but one that ranks no
better than another does not repay its time. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.evidence.advantage import (
    STATES,
    Trial,
    ceiling,
    correlation,
    judged,
    load_learner,
    nearness,
    play_trials,
    sizes_of,
)
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.batches import Batches, make_batches
from robot_stack.learner.settings import LearningSettings, learning_settings
from robot_stack.learner.training import Training
from robot_stack.learner.update_loop import next_batch
from robot_stack.replay.replay import Replay
from robot_stack.runs.paths import RunPaths

SEED = 1
LOOKS = 4
"""Times that a critic is asked while it is trained: one that grows worse has learned its data by heart."""
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "as in the run": {},
    "5 critics": {"critics": 5},
    "return over 3 steps": {"n_step": 3},
    "return over 5 steps": {"n_step": 5},
    "3 steps, 5 critics": {"n_step": 3, "critics": 5},
    "3 steps, 10 critics": {"n_step": 3, "critics": 10},
    "discount 0.9": {"discount": 0.9},
    "3 steps, discount 0.9": {"n_step": 3, "discount": 0.9},
    "3 steps, learning rate 1e-4": {"n_step": 3, "learning_rate": 1e-4},
    "3 steps, a quarter of expert rows": {"n_step": 3, "expert_fraction": 0.25},
    "contrast 0.2": {"cql_weight": 0.2},
    "3 steps, contrast 0.2": {"n_step": 3, "cql_weight": 0.2},
}
"""Settings against those of the run."""


def replay_of(resolved: ResolvedRun, folder: Path) -> Replay:
    """Everything that a run recorded, with the scores of its reward model; its folder stays as it is."""
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / folder.name
        shutil.copytree(folder, copy)
        training = Training(resolved, copy)
        training.serve("127.0.0.1:0")
        try:
            return training.prepare(threading.Event()).recorded.replay
        finally:
            training.close()


def looks(
    learner: RLPDLearner, batches: Batches, settings: LearningSettings, trials: list[Trial], updates: int
) -> Iterator[float | None]:
    """Train a learner's critics, and rank the trials now and then."""
    rng = np.random.default_rng(SEED)
    for update in range(1, updates + 1):
        learner.update_critics(next_batch(batches, rng, settings, gamma=settings.config.sampling.gamma))
        if update % max(1, updates // LOOKS) == 0:
            critic = learner.critic_snapshot()
            yield correlation(trials, [judged(critic, trial) for trial in trials])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run of RLPD that has come to its end")
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--only", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    resolved = load_resolved(RunPaths(options.run).resolved)
    settings = learning_settings(resolved)
    if not isinstance(settings.config, RLPDConfig):
        parser.error(f"algorithm of {options.run} is {settings.algorithm}, must be rlpd")
    finished, trunk = load_learner(resolved, options.run)
    assert isinstance(finished, RLPDLearner)
    trials = play_trials(resolved, options.run, finished, trunk, seed=SEED, states=options.states)
    critic = finished.critic_snapshot()
    highest, own = ceiling(trials), correlation(trials, [judged(critic, trial) for trial in trials])
    if highest is None or own is None:
        raise SystemExit("returns differ in no state, must in some: is the policy of this run ever successful?")
    near = correlation(trials, nearness(trials))
    print(f"{len(trials)} states; a perfect critic would reach {highest:.2f}, the run's own has {own:.2f},")
    print(f"the order by nearness to the policy's own action {near:.2f}\n")
    print(f"| critic | rank correlation after each of {LOOKS} parts of {options.updates} updates | ms an update |")
    print("| --- | --- | --- |", flush=True)
    batches, policy = make_batches(replay_of(resolved, options.run), settings.device), finished.published.state_dict()
    for name in options.only:
        config = RLPDConfig.model_validate({**settings.config.model_dump(), **CANDIDATES[name]})
        learner = RLPDLearner(sizes_of(resolved, options.run, trunk), config, seed=SEED, device=settings.device)
        learner.policy.load_state_dict(policy)
        started_s = time.perf_counter()
        found = list(looks(learner, batches, replace(settings, config=config), trials, options.updates))
        took_ms = 1e3 * (time.perf_counter() - started_s) / options.updates
        told = " ".join("-" if each is None else f"{each:.2f}" for each in found)
        print(f"| {name} | {told} | {took_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
