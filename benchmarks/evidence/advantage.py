"""Whether the critic ranks actions as the simulator does: Q's order against Monte-Carlo's, from restored states.

From states that the published policy visits on held-out resets, each action is played and then the policy is followed
to the end of the episode. The return is the sparse reward, discounted as the learner does it. Progress adds the same to
all actions of a state that lead to the end of the task, since it telescopes; it is left out.

A peg that meets an edge goes in at once or much later, depending on a hair's breadth: the return of one way to the end
says little of an action. So several are averaged, on each of which the policy is followed with a little noise, the same
for all actions. How well they agree with each other says what correlation a perfect critic could reach.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from policies.acting import ActingPolicy
from policies.encoders.trunk import Trunk
from policies.learner import AskedCritic, HasCritic, LearnerSpec, TensorBatch
from policies.registry import find_builders
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.settings import learning_settings, reward_rule
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.rewards import RewardRule, returns
from robot_stack.replay.stored_episode import read_episode
from robot_stack.rollout.episode_runner import reset_seed
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import FitRow, of_kind
from robot_stack.types.errors import RobotError
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import LocalCell

STATES, NOISY, UNIFORM = 50, 8, 7
"""States, and actions in each beside the policy's own: near it, and anywhere."""
NOISE = 0.3
"""Standard deviation of the actions near the policy's own."""
WAYS, WAY_NOISE = 4, 0.1
"""Ways to the end that are averaged, and the standard deviation of the noise on the policy's actions there."""
FIRST_RESET = 100_000
"""Number of the first reset, which no evaluation comes to."""
MOST_EPISODES = 4 * STATES


class Moment:
    """A cell at one instant, which can be gone on from again and again, each time exactly alike.

    Attributes:
        observation: What was sensed.
        tick: Control ticks since the episode began.
    """

    def __init__(self, cell: LocalCell, observation: Observation, tick: int) -> None:
        self.observation = observation
        self.tick = tick
        model = cell.world.model
        self._cell = copied(cell)
        self._lights = (model.light_diffuse.copy(), model.vis.headlight.diffuse.copy())

    def again(self) -> LocalCell:
        """A cell at this instant. All cells of a world draw with one renderer: use one after the other."""
        cell = copied(self._cell)
        model = cell.world.model
        model.light_diffuse[:], model.vis.headlight.diffuse[:] = self._lights
        return cell


def copied(cell: LocalCell) -> LocalCell:
    """Copy all that a cell will ever do depends on; the compiled model is shared, whose lights a reset changes."""
    model = cell.world.model
    return copy.deepcopy(cell, {id(model): model})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A state with its actions, and what came of them.

    Attributes:
        features: Of the observation, as the learner's encoder gives them, shape (1, F).
        proprio: Of the observation, float32, shape (P,).
        actions: Chunks of actions, float32, shape (N, C, A); the first is the policy's own.
        ways: Discounted sparse reward of each way to the end, float64, shape (N, W), W even.
    """

    features: np.ndarray
    proprio: np.ndarray
    actions: np.ndarray
    ways: np.ndarray

    @property
    def returns(self) -> np.ndarray:
        """Return the mean over the ways, shape (N,)."""
        return np.asarray(self.ways.mean(axis=1))


class Player:
    """Plays episodes of a run on a cell without an operator's help, and goes on from moments of them.

    Args:
        resolved: The run.
        policy: Acts without noise.
        rule: What outcomes and steps are worth.
        gamma: Discount per control tick.
    """

    def __init__(self, resolved: ResolvedRun, policy: Policy, *, rule: RewardRule, gamma: float) -> None:
        self._resolved = resolved
        self._policy = policy
        self._rule, self._gamma = rule, gamma
        self._period_ns = round(resolved.spec().period_s * 1e9)
        self._cell = build_local_cell(resolved, seed=0)

    def visit(self, number: int, rng: np.random.Generator, *, every: int) -> Moment | None:
        """Play one episode; returns a moment of it, drawn uniformly, a whole number of chunks from its start.

        Args:
            number: Of the reset.
            rng: Draws the moment.
            every: C, ticks of a chunk.

        Returns:
            None if the cell is done at once, or sees nothing.
        """
        cell, chosen = self._cell, None
        cell.reset(reset_seed(self._resolved.run.seed, EpisodeKind.EVAL, number))
        cell.start(f"{number:06d}-eval-advantage", EpisodeKind.EVAL)
        self._policy.begin_episode()
        for tick in range(self._resolved.task.episode_steps):
            observation = _seen(cell)
            if tick % every == 0 and rng.random() < 1 / (tick // every + 1):
                chosen = Moment(cell, observation, tick)
            self._step(cell, self._policy.act(observation, deterministic=True))
            if cell.truth():
                break
        cell.finish()
        return chosen

    def outcome_of(self, moment: Moment, actions: np.ndarray, rng: np.random.Generator, noise: float) -> float:
        """The return from a moment on, of actions (C, A) and of the policy with noise after them."""
        cell = moment.again()
        self._policy.begin_episode()
        left = self._resolved.task.episode_steps - moment.tick
        for tick in range(left):
            observation = _seen(cell)
            if tick < len(actions):
                chosen = actions[tick]
            else:
                own = self._policy.act(observation, deterministic=True)
                chosen = np.clip(own + rng.normal(0.0, noise, own.shape), -1.0, 1.0).astype(np.float32)
            self._step(cell, chosen)
            if cell.truth():
                return self._return(tick + 1, Outcome.SUCCESS)
        return self._return(left, Outcome.OPEN)

    def _step(self, cell: LocalCell, action: np.ndarray) -> None:
        cell.send(action)
        cell.sleep_until_ns(cell.now_ns() + self._period_ns)

    def _return(self, steps: int, outcome: Outcome) -> float:
        none = np.zeros(1)
        reward, _ = returns(
            self._rule, self._gamma, steps=np.array([steps]), outcome=np.array([outcome]), phi=none, next_phi=none
        )
        return float(reward[0])


def _seen(cell: LocalCell) -> Observation:
    observation = cell.observe()
    if observation is None:
        raise RobotError("observation of a simulated cell is missing, must be there at each tick; start it anew")
    return observation


def sizes_of(resolved: ResolvedRun, folder: Path, trunk: Trunk) -> LearnerSpec:
    """The sizes that a run's learner was built from."""
    paths = RunPaths(folder)
    fit = of_kind(read_rows(paths.metrics).rows, FitRow)[-1]
    demos = [read_episode(paths.store.episode(name), images=False) for name in fit.demo_ids]
    return fitting.learner_spec(trunk, demos, resolved.spec(), trained=False)


class ValuesActions(HasCritic, Protocol):
    """A learner with a policy to be followed and a critic to be asked."""

    @property
    def published(self) -> Acts:
        """Return the policy that acts and is evaluated."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint."""
        ...


class Acts(Protocol):
    """A policy as a network."""

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks, (B, C * A)."""
        ...


def load_learner(resolved: ResolvedRun, folder: Path) -> tuple[ValuesActions, Trunk]:
    """The learner of a run as its newest checkpoint has it, with the encoder that it sees through."""
    paths, settings = RunPaths(folder), learning_settings(resolved)
    trunk = fitting.load_trunk(paths.trunk, resolved.spec(), settings.device)
    sizes = sizes_of(resolved, folder, trunk)
    learner = find_builders(settings.algorithm).learner(sizes, settings.config, seed=0, device=settings.device)
    state = CheckpointFolder(paths.checkpoints).load_latest()
    if state is None or not isinstance(learner, HasCritic):
        raise SystemExit(f"run {folder.name} has no checkpoint with a critic, must have one; take a run of RLPD or QC")
    asked = cast("ValuesActions", learner)
    asked.load_state_dict(state["learner"])
    return asked, trunk


def proposals(own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A policy's own chunk of actions (C, A), noisy ones around it, and uniform ones: float32, shape (N, C, A)."""
    noisy = own + rng.normal(0.0, NOISE, (NOISY, *own.shape))
    uniform = rng.uniform(-1.0, 1.0, (UNIFORM, *own.shape))
    return np.clip(np.concatenate([own[None], noisy, uniform]), -1.0, 1.0).astype(np.float32)


def judged(critic: AskedCritic, trial: Trial) -> np.ndarray:
    """Q of the actions of a trial, mean over critics, float64, shape (N,)."""
    count = len(trial.actions)
    actions = trial.actions.reshape(count, -1)
    batch = TensorBatch.for_imitation(
        np.repeat(trial.features, count, axis=0),
        np.repeat(trial.proprio[None], count, axis=0),
        actions,
        np.ones(actions.shape, bool),
    )
    (q,) = critic.values(batch, [batch.action])
    return q.double().numpy()


def own_actions(learner: ValuesActions, features: np.ndarray, proprio: np.ndarray, actions: int) -> np.ndarray:
    """The published policy's chunk at one observation, without noise, float32, shape (C, A)."""
    seen, known = torch.from_numpy(features).float(), torch.from_numpy(proprio)[None]
    with torch.no_grad():
        chunk = learner.published.act(seen, known, tick=0, rng=torch.Generator(), deterministic=True)
    return chunk.float().numpy().reshape(-1, actions)


def rank(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation of two rows; 0 where one tells nothing apart."""
    apart = np.ptp(first) > 0.0 and np.ptp(second) > 0.0
    return float(spearmanr(first, second).statistic) if apart else 0.0


def correlation(trials: Sequence[Trial], q: Sequence[np.ndarray]) -> float | None:
    """Rank correlation of Q with the return, averaged over the states whose returns differ.

    A critic that tells no actions of a state apart counts 0 there.

    Returns:
        None if the returns differ in no state.
    """
    ranked = [rank(each, trial.returns) for trial, each in zip(trials, q, strict=True) if np.ptp(trial.returns) > 0.0]
    return float(np.mean(ranked)) if ranked else None


def ceiling(trials: Sequence[Trial]) -> float | None:
    """The rank correlation that a critic could reach who knew the mean over all ways.

    It is the root of the reliability of a mean over W ways, which follows from the correlation r of the means of either
    half of them: 2r / (1 + r) (Spearman and Brown, 1910).

    Returns:
        None if the returns differ in no state.
    """
    halves = [(t.ways[:, ::2].mean(axis=1), t.ways[:, 1::2].mean(axis=1)) for t in trials if np.ptp(t.returns) > 0.0]
    if not halves:
        return None
    agreed = max(0.0, float(np.mean([rank(first, second) for first, second in halves])))
    return float(np.sqrt(2 * agreed / (1 + agreed)))


def nearness(trials: Sequence[Trial]) -> list[np.ndarray]:
    """Rank actions by how near they are to the policy's own, each (N,): what a critic is worth that knows only those.

    A policy that is good already is best followed, and whoever says so of every state has learned nothing of the task.
    """
    return [-np.linalg.norm((t.actions - t.actions[0]).reshape(len(t.actions), -1), axis=1) for t in trials]


def play_trials(
    resolved: ResolvedRun, folder: Path, learner: ValuesActions, trunk: Trunk, *, seed: int, states: int = STATES
) -> list[Trial]:
    """Play actions from states that a finished run's policy visits."""
    settings = learning_settings(resolved)
    spec, rng = resolved.spec(), np.random.default_rng(seed)
    policy = ActingPolicy(spec, load_params(RunPaths(folder).policy("policy")), seed=0)
    player = Player(resolved, policy, rule=reward_rule(resolved, settings), gamma=settings.config.sampling.gamma)
    trials: list[Trial] = []
    for number in range(FIRST_RESET, FIRST_RESET + MOST_EPISODES):
        if len(trials) == states:
            break
        moment = player.visit(number, rng, every=settings.config.sampling.chunk)
        if moment is None:
            continue
        seen = moment.observation
        features = trunk.encode({name: image[None] for name, image in seen.images.items()})
        actions = proposals(own_actions(learner, features, seen.proprio, spec.action_size), rng)
        ways = [
            [player.outcome_of(moment, chunk, np.random.default_rng(way), WAY_NOISE) for way in range(WAYS)]
            for chunk in actions
        ]
        trials.append(Trial(features=features, proprio=seen.proprio, actions=actions, ways=np.array(ways)))
    return trials


def rank_correlation(resolved: ResolvedRun, folder: Path, *, seed: int, states: int = STATES) -> dict[str, Any]:
    """How the critic of a finished run ranks actions; with the number of states, and of those that could tell."""
    learner, trunk = load_learner(resolved, folder)
    trials = play_trials(resolved, folder, learner, trunk, seed=seed, states=states)
    critic = learner.critic_snapshot()
    q = [judged(critic, trial) for trial in trials]
    differ = [trial for trial in trials if np.ptp(trial.returns) > 0.0]
    return {
        "spearman": correlation(trials, q),
        "ceiling": ceiling(trials),
        "by_nearness": correlation(trials, nearness(trials)),
        "states": len(trials),
        "states_that_differ": len(differ),
        "own_return": float(np.mean([trial.returns[0] for trial in trials])),
        "best_return": float(np.mean([trial.returns.max() for trial in trials])),
        "by_q_return": float(np.mean([trial.returns[each.argmax()] for trial, each in zip(trials, q, strict=True)])),
    }
