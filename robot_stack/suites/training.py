"""RLPD on an environment in one process and in lockstep: each step is followed by the updates that it allows.

Control loop, replay, batches and learner are those of a run on a robot. There is no link, no store on disk, no reward
model and no encoder: the environment's numbers are the observation, and its truth the sparse reward. Prior data, of
whatever quality, may be half of each batch (Ball et al., 2023, arXiv:2302.02948).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import nn

from policies.learner import LearnerSpec, TensorBatch
from policies.playback import ChunkPlayer
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from policies.rlpd.policy import TrainedPolicy
from robot_stack.learner.data.batches import Batches, make_batches
from robot_stack.replay.hindsight import Hindsight
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.episode_runner import episode_id, reset_seed
from robot_stack.rollout.evaluate import NullSink
from robot_stack.suites.environment_process import EnvironmentProcess
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Policy, StepSink
from robot_stack.types.observation import Observation
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step

SPARSE = RewardRule(shaping=0.0)
ACTOR = "suite"
TASK = "suite"
DEMO_TRIES = 3
"""Demonstrations that are tried for each one that must succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The length of a training in lockstep.

    Attributes:
        demos: Successful demonstrations before the first update.
        online_steps: Steps of online training.
        random_steps: The first of them, in which actions are uniform and nothing is updated.
        eval_first: Evaluate before the first update too.
        episode_steps: Longest episode; the environment may cut it shorter.
        eval_every: Online steps from one evaluation to the next.
        eval_episodes: Episodes of each.
        eval_sampled: Evaluate actions that are drawn as in training, instead of the policy's mean.
    """

    demos: int
    online_steps: int
    episode_steps: int
    eval_every: int
    eval_episodes: int
    random_steps: int = 0
    eval_first: bool = True
    eval_sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a training has come.

    Attributes:
        online_steps: Made so far.
        updates: Made so far.
        seconds: Since training began, evaluations included.
        trained_episodes: Episodes of online training since the last `Progress`, random and shortened ones too.
        trained_successes: Of these.
    """

    online_steps: int
    updates: int
    seconds: float
    trained_episodes: int
    trained_successes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(Progress):
    """The result of one evaluation: successes of the policy without help, on held-out resets.

    Attributes:
        successes: Of the policy as far as training had come.
        episodes: That were evaluated.
    """

    successes: int
    episodes: int


class LockstepTraining:
    """The training of RLPD on one environment; `run` does all of it.

    Args:
        cell: The environment, with an expert who demonstrates, unless there is prior data and no demonstration.
        config: Hyperparameters.
        budget: How long.
        seed: Of everything random.
        rule: What outcomes are worth.
        prior: Online episodes of another agent, of which half of each batch is drawn; see `prior_replay`. What the
            training itself records is the other half: it begins with random steps, and has no demonstrations.
        hindsight: Of rows whose goal is relabelled; None for none.
        device: Where the learner computes, "cpu" or "cuda"; the policy acts on the CPU, as in a run on a robot.
        beside: The process in which the cell's environment steps. The updates that a step allows are made while the
            next one is simulated: an action is then of a policy that is older by them.

    Raises:
        SpecError: If the environment has cameras, since training in lockstep reads numbers alone, or the budget does
            not go with prior data.
    """

    def __init__(
        self,
        cell: GymnasiumCell,
        config: RLPDConfig,
        budget: Budget,
        *,
        seed: int,
        rule: RewardRule = SPARSE,
        prior: Replay | None = None,
        hindsight: Hindsight | None = None,
        device: str = "cpu",
        beside: EnvironmentProcess | None = None,
    ) -> None:
        if names := [camera.name for camera in cell.spec.cameras]:
            raise SpecError(
                f"images of the environment are {names}, must be none for training in lockstep; leave them out"
            )
        if prior is not None and (budget.demos or config.pretrain_updates or budget.random_steps < 2 * config.chunk):
            raise SpecError(
                f"demos, updates before the first step and random steps are {budget.demos}, {config.pretrain_updates} "
                f"and {budget.random_steps}, must be 0, 0 and at least {2 * config.chunk} with prior data; the other "
                "half of a batch is what was done online"
            )
        torch.set_num_threads(1)
        self._cell, self._config, self._budget, self._seed = cell, config, budget, seed
        self._loop = ControlLoop(cell, cell.spec, cell, LoopLimits(episode_steps=budget.episode_steps))
        self._replay = Replay(cell.spec, rule, keep_images=False, hindsight=hindsight)
        self._prior = prior
        self._device = device
        self._beside = beside
        self._own_batches = make_batches(self._replay, device)
        self._prior_batches = None if prior is None else make_batches(prior, device)
        self._rng = np.random.default_rng(seed)
        self._numbers = {kind: count() for kind in EpisodeKind}
        self._started_s = time.monotonic()
        self._trained: list[bool] = []
        self.online_steps = 0

    def run(
        self,
        say: Callable[[Evaluated], None] = lambda evaluated: None,
        *,
        keep: Callable[[Progress, nn.Module], None] = lambda progress, network: None,
    ) -> list[Evaluated]:
        """Demonstrate, train online and evaluate on the way; return all evaluations, the last at the end.

        Args:
            say: Told each evaluation when it is done.
            keep: Given the policy's network before each evaluation; it is trained on afterwards.

        Raises:
            RobotError: If too few demonstrations succeed.
        """
        budget, found = self._budget, list[Evaluated]()
        self._demonstrate()
        learner = self._make_learner()
        policy = _LearnerPolicy(learner, self._cell.spec.action_size, self._seed)
        at_first = _RandomPolicy(self._cell.spec.action_size, self._rng)

        def measure() -> None:
            progress = self._progress(policy.version)
            keep(progress, learner.published)
            successes = self.evaluate(copy.deepcopy(policy.network()))
            told = asdict(progress) | {"seconds": time.monotonic() - self._started_s}
            found.append(Evaluated(**told, successes=successes, episodes=budget.eval_episodes))
            say(found[-1])

        if budget.eval_first:
            measure()
        self._update(learner, self._config.pretrain_updates)
        due = budget.eval_every
        if self._beside is not None:
            self._beside.meanwhile = lambda: self._catch_up(learner)
        sink = _OnlineSink(self._replay, lambda: self._after_step(learner))
        while self.online_steps < budget.online_steps:
            is_random = self.online_steps < budget.random_steps
            until = budget.random_steps if is_random else budget.online_steps
            outcome = self._episode(EpisodeKind.ONLINE, at_first if is_random else policy, sink, until=until)
            self._trained.append(bool(outcome.truth))
            if self.online_steps >= min(due, budget.online_steps):
                self._catch_up(learner)
                measure()
                due += budget.eval_every
        return found

    def _demonstrate(self) -> None:
        tried = succeeded = 0
        while succeeded < self._budget.demos:
            if tried >= DEMO_TRIES * self._budget.demos:
                raise RobotError(
                    f"successful demonstrations are {succeeded} of {tried}, must be {self._budget.demos}; "
                    "give the cell a better expert, or longer episodes"
                )
            outcome = self._episode(EpisodeKind.DEMO, None, _OnlineSink(self._replay, lambda: None))
            tried, succeeded = tried + 1, succeeded + bool(outcome.truth)

    def _make_learner(self) -> RLPDLearner:
        proprio = (self._replay if self._prior is None else self._prior).frames.column("proprio")
        return RLPDLearner(
            LearnerSpec(
                parts=(),
                proprio_mean=torch.from_numpy(proprio.mean(axis=0)),
                proprio_std=torch.from_numpy(proprio.std(axis=0)),
                actions=self._cell.spec.action_size,
            ),
            self._config,
            seed=self._seed,
            device=self._device,
        )

    def _after_step(self, learner: RLPDLearner) -> None:
        """Count an online step, and make the updates that it allows unless they are made beside the next one."""
        self.online_steps += 1
        if self._beside is None:
            self._catch_up(learner)

    def _catch_up(self, learner: RLPDLearner) -> None:
        """Make the updates that the online steps so far allow."""
        counted = max(0, self.online_steps - self._budget.random_steps)
        self._update(learner, self._config.pretrain_updates + int(self._config.utd * counted))

    def _update(self, learner: RLPDLearner, allowed: int) -> None:
        while learner.updates < allowed:
            own, prior = self._own_batches, self._prior_batches
            if prior is None:
                learner.update(self._sample(own, self._config.batch_size, self._config.expert_fraction))
            else:
                half = self._config.batch_size // 2
                learner.update(_joined(self._sample(prior, half, 0.0), self._sample(own, half, 0.0)))

    def _sample(self, batches: Batches, rows: int, expert_fraction: float) -> TensorBatch:
        sampling = self._config.sampling
        return batches.sample(
            self._rng,
            rows,
            gamma=sampling.gamma,
            expert_fraction=expert_fraction,
            n_step=sampling.n_step,
            chunk=sampling.chunk,
        )

    def evaluate(self, network: TrainedPolicy) -> int:
        """Return the successes of a policy that a training like this one gave to `keep`, as `run` would count them."""
        self._numbers[EpisodeKind.EVAL] = count()  # the same starts each time, and the same noise
        policy = _NetworkPolicy(network, self._cell.spec.action_size, self._seed)
        outcomes = [self._episode(EpisodeKind.EVAL, policy, NullSink()) for _ in range(self._budget.eval_episodes)]
        return sum(bool(outcome.truth) for outcome in outcomes)

    def _progress(self, updates: int) -> Progress:
        trained, self._trained = self._trained, []
        return Progress(
            online_steps=self.online_steps,
            updates=updates,
            seconds=time.monotonic() - self._started_s,
            trained_episodes=len(trained),
            trained_successes=sum(trained),
        )

    def _episode(
        self,
        kind: EpisodeKind,
        policy: Policy | None,
        sink: StepSink,
        *,
        until: int | None = None,
    ) -> EpisodeOutcome:
        """Run an episode to its end, or for as long as there are fewer than `until` online steps."""
        number = next(self._numbers[kind])
        header = EpisodeHeader(
            episode_id=episode_id(number, kind, ACTOR),
            kind=kind,
            task=TASK,
            actor=ACTOR,
            started_unix_s=time.time(),
            seed=reset_seed(self._seed, kind, number),
        )
        deterministic = kind is EpisodeKind.EVAL and not self._budget.eval_sampled
        return self._loop.run_episode(
            header,
            policy,
            sink,
            deterministic=deterministic,
            stopping=lambda: until is not None and self.online_steps >= until,
        )


class _OnlineSink:
    """A sink of steps straight into a replay, which reports each action."""

    def __init__(self, replay: Replay, after_step: Callable[[], None]) -> None:
        self._replay = replay
        self._after_step = after_step

    def begin(self, header: EpisodeHeader) -> None:
        """Begin an episode in the replay."""
        self._replay.begin(header)

    def push(self, step: Step) -> None:
        """Put a step into the replay, then report it."""
        self._replay.add_step(step)
        if step.action is not None:
            self._after_step()

    def label(self, label: Label) -> None:
        """Put a verdict into the replay."""
        self._replay.add_label(label)

    def mark(self, mark: StageMark) -> None:
        """Ignore a stage mark: there is no reward model."""


class _NetworkPolicy:
    """A policy network on numbers alone, on the CPU; implements `types.interfaces.Policy`."""

    age_s = 0.0

    def __init__(self, network: TrainedPolicy, actions: int, seed: int) -> None:
        self._network = network
        self._player = ChunkPlayer(network, actions, torch.Generator().manual_seed(seed))

    @property
    def version(self) -> int:
        """Return 0: the network stays as it is."""
        return 0

    def begin_episode(self) -> None:
        """Count ticks from 0 and forget what was planned."""
        self._player.begin_episode()

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return the action for this control tick, float32 (A,) in [-1, 1]."""
        if interrupted:
            self._player.void()

        def see() -> tuple[torch.Tensor, torch.Tensor]:
            self._refresh()
            return torch.zeros(1, 0), torch.from_numpy(observation.proprio)[None]

        return self._player.next_action(see, deterministic=deterministic)

    def _refresh(self) -> None:
        """Bring the network to its latest state."""


class _LearnerPolicy(_NetworkPolicy):
    """A learner's published policy as it is at each decision, copied to the CPU where it is elsewhere."""

    def __init__(self, learner: RLPDLearner, actions: int, seed: int) -> None:
        self._learner = learner
        self._copied_at = learner.updates
        self._is_elsewhere = next(learner.published.parameters()).device.type != "cpu"
        here = copy.deepcopy(learner.published).cpu() if self._is_elsewhere else learner.published
        super().__init__(here, actions, seed)

    @property
    def version(self) -> int:
        """Return the number of updates behind the policy."""
        return self._learner.updates

    def network(self) -> TrainedPolicy:
        """Return the network as it is now."""
        self._refresh()
        return self._network

    def _refresh(self) -> None:
        if self._copied_at != self._learner.updates and self._is_elsewhere:
            with torch.no_grad():
                torch._foreach_copy_(list(self._network.parameters()), list(self._learner.published.parameters()))
        self._copied_at = self._learner.updates


class _RandomPolicy:
    """A policy of uniform actions; implements `types.interfaces.Policy`."""

    age_s = 0.0
    version = 0

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._size = size
        self._rng = rng

    def begin_episode(self) -> None:
        """Do nothing: there is nothing to forget."""

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return an action, float32 (A,) in [-1, 1]."""
        return self._rng.uniform(-1.0, 1.0, self._size).astype(np.float32)


def _joined(one: TensorBatch, other: TensorBatch) -> TensorBatch:
    """Join two batches without images, row after row."""
    names = [each.name for each in fields(TensorBatch) if each.name not in ("images", "next_images")]
    columns: dict[str, Any] = {name: torch.cat([getattr(one, name), getattr(other, name)]) for name in names}
    return TensorBatch(**columns)
