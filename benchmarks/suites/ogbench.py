"""RLPD of this project on OGBench's single-task manipulation, under the protocol of the published rows.

Protocol (Li, Zhou and Levine, 2025, arXiv:2507.07969, `main_online.py` of ColinQiyangLi/qc): state observations, half
of each batch of 256 from a million steps of play and half online, one update a step after 5,000 random steps, discount
.99, an entropy target of half an entry's, 50 evaluation episodes with sampled actions. -1 a step and 0 where the task
is done; in cube-double the published runs count the cubes that are not yet in place instead, and ours do not. Networks
and target are the published ones, 10 critics of 4x512 with LayerNorm and ReLU of which the mean is the target, or,
where one core has to do, those of our runs on robots: 2 critics of 2x256 with LayerNorm and tanh, of which one drawn at
random is the target. Other deviations: observations are standardised, and clipped at five deviations; the temperature
is a softplus and not an exponential, standard deviations are 1e-5 to 5 where theirs are e^-20 to e^2; an update steps
critics, actor and temperature one after the other where theirs steps them at once; an action is of a policy that is one
update older; chunks in which the task is done before their end are learned from, where the published program leaves
them out of its online half, and play is cut where it passes through success; every evaluation has the same 50 starts;
the play is made anew by OGBench's oracles (`benchmarks.suites.play`), where theirs is OGBench's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import ogbench.manipspace  # noqa: F401 - registers the environments
import torch
from ogbench.relabel_utils import relabel_dataset
from torch import Tensor, nn

from benchmarks.suites.play import make_shards, read_shards
from policies.learner import LearnerSpec
from policies.rlpd.config import RLPDConfig
from policies.rlpd.policy import RLPDPolicy
from robot_stack.replay.rewards import RewardRule
from robot_stack.suites.environment_process import EnvironmentProcess
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.suites.prior import prior_replay
from robot_stack.suites.training import Budget, Evaluated, LockstepTraining, Progress

RULE = RewardRule(success=1.0, step_penalty=1.0, shaping=0.0)
"""-1 a step, and 0 for that which finds the task done."""
EVAL_EPISODES = 50
RANDOM_STEPS = 5_000
SHARDS, SHARD_EPISODES = 10, 100
EVAL_EVERY = 50_000
Networks = Literal["small", "wide", "published"]
NETWORKS: dict[Networks, dict[str, Any]] = {
    "small": {"critics": 2, "hidden": (256, 256), "head": 256, "critic_subset": 1},
    "wide": {"critics": 10, "hidden": (512, 512, 512, 512), "head": 512, "critic_subset": 1},
    "published": {
        "critics": 10,
        "hidden": (512, 512, 512, 512),
        "head": 0,
        "layers": "rlpd",
        "critic_subset": 10,
        "subset_mean": True,
        "bf16": False,
    },
}
"""Networks and target: our own for one core, our own of the published size, and the published ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of OGBench.

    Attributes:
        domain: As in OGBench's names.
        number: Of the task.
    """

    domain: str
    number: int

    @property
    def name(self) -> str:
        """Return the name in our table and in `published.json`."""
        return f"{self.domain}-{self.number}"

    @property
    def environment(self) -> str:
        """Return the id of the Gymnasium environment."""
        return f"{self.domain}-singletask-task{self.number}-v0"


TASKS = {
    task.name: task
    for task in (
        Task(domain="puzzle-3x3", number=4),
        Task(domain="puzzle-3x3", number=1),
        Task(domain="scene", number=3),
        Task(domain="scene", number=1),
        Task(domain="cube-double", number=1),
        Task(domain="cube-double", number=4),
    )
}
"""By name, the most telling first."""


def settings(chunk: int, networks: Networks = "small") -> RLPDConfig:
    """Return the settings of the published runs, on networks that need not be theirs."""
    return RLPDConfig(
        batch_size=256,
        utd=1.0,
        expert_fraction=0.0,
        discount=0.99,
        chunk=chunk,
        critic_actor_ratio=1,
        learning_rate=3e-4,
        target_tau=0.005,
        actor_tau=1.0,
        initial_temperature=1.0,
        target_entropy_per_action=-0.5,
        std_min=1e-5,
        std_max=5.0,
        bc_weight=0.0,
        **NETWORKS[networks],
    )


def train(
    task: Task,
    *,
    chunk: int,
    seed: int,
    steps: int,
    data: Path,
    say: Callable[[Evaluated], None],
    networks: Networks = "small",
    device: str = "cpu",
    eval_every: int = EVAL_EVERY,
    eval_episodes: int = EVAL_EPISODES,
    random_steps: int = RANDOM_STEPS,
    shards: int = SHARDS,
    shard_episodes: int = SHARD_EPISODES,
    keep: Callable[[Progress, nn.Module], None] = lambda progress, network: None,
) -> None:
    """Make what play is missing, then train, and tell each evaluation.

    Args:
        chunk: Steps that one decision covers.
        data: Folder of the play data of all domains.
        networks: A key of `NETWORKS`.
        device: Where they are trained.
        keep: Given the policy's network before each evaluation.
    """
    folder = data / task.domain
    make_shards(task.domain, folder, shards=shards, episodes=shard_episodes)
    environment = gymnasium.make(task.environment)
    arrays = labelled_play(task, environment, folder, shards)
    prior = prior_replay(GymnasiumCell(environment).spec, RULE, arrays)
    del arrays
    budget = Budget(
        demos=0,
        online_steps=steps,
        random_steps=random_steps,
        episode_steps=_longest(environment),
        eval_every=eval_every,
        eval_episodes=eval_episodes,
        eval_first=False,
        eval_sampled=True,
    )
    config = settings(chunk, networks)
    beside = EnvironmentProcess(partial(make_environment, task.environment))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not config.bf16  # as the published program has it on a GPU
    try:
        training = LockstepTraining(
            GymnasiumCell(beside), config, budget, seed=seed, rule=RULE, prior=prior, device=device, beside=beside
        )
        training.run(say, keep=keep)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
        beside.close()


def evaluate(
    task: Task,
    state: Mapping[str, Tensor],
    *,
    chunk: int,
    seed: int,
    networks: Networks = "small",
    eval_episodes: int = EVAL_EPISODES,
) -> int:
    """Return the successes of a policy that was kept, as the training of this seed would have counted them.

    Args:
        state: Of the network that `train` gave to `keep`.
    """
    environment = gymnasium.make(task.environment)
    cell = GymnasiumCell(environment)
    budget = Budget(
        demos=0,
        online_steps=0,
        episode_steps=_longest(environment),
        eval_every=EVAL_EVERY,
        eval_episodes=eval_episodes,
        eval_sampled=True,
    )
    nothing = torch.zeros(cell.spec.proprio_size)  # mean and spread are in the state
    spec = LearnerSpec(parts=(), proprio_mean=nothing, proprio_std=nothing, actions=cell.spec.action_size)
    network = RLPDPolicy(spec, settings(chunk, networks))
    network.load_state_dict(state)
    return LockstepTraining(cell, settings(chunk, networks), budget, seed=seed, rule=RULE).evaluate(network)


def make_environment(name: str) -> gymnasium.Env[Any, Any]:
    """Make an environment of OGBench; a process that imports this module knows them."""
    return gymnasium.make(name)


def _longest(environment: gymnasium.Env[Any, Any]) -> int:
    return int(environment.spec.max_episode_steps)  # type: ignore[union-attr, arg-type]


def labelled_play(task: Task, environment: gymnasium.Env[Any, Any], folder: Path, shards: int) -> dict[str, np.ndarray]:
    """Return play with OGBench's own truth of where this task was done: `masks` is 0 there."""
    arrays = read_shards(folder, shards)
    relabel_dataset(task.environment, environment, arrays)
    return arrays
