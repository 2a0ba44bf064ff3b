"""Whether the critic ranks actions as the simulator does: Q's order against Monte-Carlo's, from restored states.

From states that the published policy visits on held-out resets, each action is played and then the policy is followed,
without noise, to the end of the episode. The return is the sparse reward, discounted as the learner does it. Progress
adds the same to all actions of a state that lead to the end of the task, since it telescopes; it is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from policies.acting import ActingPolicy
from policies.encoders.trunk import Trunk
from policies.registry import find_algorithm
from policies.rlpd.learner import RLPDLearner
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.settings import learning_settings, reward_rule
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.rewards import RewardRule, returns
from robot_stack.replay.stored_episode import read_episode
from robot_stack.rollout.episode_runner import reset_seed
from robot_stack.rollout.evaluate import load_params
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
    """A state with its actions.

    Attributes:
        actions: Chunks of actions, float32, shape (N, C, A); the first is the policy's own.
        q: Q of each, mean over critics, float64, shape (N,).
        returns: Discounted sparse reward from there, float64, shape (N,).
    """

    actions: np.ndarray
    q: np.ndarray
    returns: np.ndarray


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

    def outcome_of(self, moment: Moment, actions: np.ndarray) -> float:
        """The return from a moment on, of actions (C, A) and of the policy after them."""
        cell = moment.again()
        self._policy.begin_episode()
        left = self._resolved.task.episode_steps - moment.tick
        for tick in range(left):
            observation = _seen(cell)
            chosen = actions[tick] if tick < len(actions) else self._policy.act(observation, deterministic=True)
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


def load_learner(resolved: ResolvedRun, folder: Path) -> tuple[RLPDLearner, Trunk]:
    """The learner of a run as its newest checkpoint has it, with the encoder that it sees through."""
    paths, settings = RunPaths(folder), learning_settings(resolved)
    fit = of_kind(read_rows(paths.metrics).rows, FitRow)[-1]
    demos = [read_episode(paths.store.episode(name), images=False) for name in fit.demo_ids]
    trunk = fitting.load_trunk(paths.trunk, resolved.spec(), settings.device)
    sizes = fitting.learner_spec(trunk, demos, resolved.spec(), trained=False)
    learner = find_algorithm(settings.algorithm).learner(sizes, settings.config, seed=0, device=settings.device)
    state = CheckpointFolder(paths.checkpoints).load_latest()
    if state is None or not isinstance(learner, RLPDLearner):
        raise SystemExit(f"run {folder.name} has no checkpoint with a critic, must have one; take a run of RLPD")
    learner.load_state_dict(state["learner"])
    return learner, trunk


def proposals(own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A policy's own chunk of actions (C, A), noisy ones around it, and uniform ones: float32, shape (N, C, A)."""
    noisy = own + rng.normal(0.0, NOISE, (NOISY, *own.shape))
    uniform = rng.uniform(-1.0, 1.0, (UNIFORM, *own.shape))
    return np.clip(np.concatenate([own[None], noisy, uniform]), -1.0, 1.0).astype(np.float32)


@torch.no_grad()
def judged(learner: RLPDLearner, trunk: Trunk, observation: Observation, actions: np.ndarray) -> np.ndarray:
    """Q of chunks of actions (N, C, A) at one observation, mean over critics, float64, shape (N,)."""
    features = torch.from_numpy(trunk.encode({name: image[None] for name, image in observation.images.items()})).float()
    flat = torch.from_numpy(actions.reshape(len(actions), -1))
    count = len(actions)
    proprio = torch.from_numpy(observation.proprio)[None].expand(count, -1)
    q = learner.critic(features.expand(count, -1), proprio, learner.layout.arm(flat))
    return q.float().mean(dim=0).double().numpy()


def own_actions(learner: RLPDLearner, trunk: Trunk, observation: Observation, actions: int) -> np.ndarray:
    """The published policy's chunk at one observation, without noise, float32, shape (C, A)."""
    features = torch.from_numpy(trunk.encode({name: image[None] for name, image in observation.images.items()})).float()
    proprio = torch.from_numpy(observation.proprio)[None]
    with torch.no_grad():
        chunk = learner.published.act(features, proprio, tick=0, rng=torch.Generator(), deterministic=True)
    return chunk.float().numpy().reshape(-1, actions)


def correlation(trials: Sequence[Trial]) -> float | None:
    """Spearman's rank correlation of Q with the return, averaged over the states whose returns differ.

    A critic that tells no actions of a state apart counts 0 there.

    Returns:
        None if the returns differ in no state.
    """
    ranked = []
    for trial in trials:
        if np.ptp(trial.returns) > 0.0:
            apart = np.ptp(trial.q) > 0.0
            ranked.append(float(spearmanr(trial.q, trial.returns).statistic) if apart else 0.0)
    return float(np.mean(ranked)) if ranked else None


def rank_correlation(resolved: ResolvedRun, folder: Path, *, seed: int, states: int = STATES) -> dict[str, Any]:
    """How the critic of a finished run ranks actions; with the number of states, and of those that could tell."""
    settings = learning_settings(resolved)
    learner, trunk = load_learner(resolved, folder)
    spec, rng = resolved.spec(), np.random.default_rng(seed)
    policy = ActingPolicy(spec, load_params(RunPaths(folder).policy("policy")), seed=0)
    player = Player(resolved, policy, rule=reward_rule(resolved, settings), gamma=settings.config.sampling.gamma)
    trials: list[Trial] = []
    for number in range(FIRST_RESET, FIRST_RESET + MOST_EPISODES):
        if len(trials) == states:
            break
        moment = player.visit(number, rng, every=learner.policy.chunk)
        if moment is None:
            continue
        actions = proposals(own_actions(learner, trunk, moment.observation, spec.action_size), rng)
        trials.append(
            Trial(
                actions=actions,
                q=judged(learner, trunk, moment.observation, actions),
                returns=np.array([player.outcome_of(moment, chunk) for chunk in actions]),
            )
        )
    differ = [trial for trial in trials if np.ptp(trial.returns) > 0.0]
    return {
        "spearman": correlation(trials),
        "states": len(trials),
        "states_that_differ": len(differ),
        "own_return": float(np.mean([trial.returns[0] for trial in trials])),
        "best_return": float(np.mean([trial.returns.max() for trial in trials])),
        "by_q_return": float(np.mean([trial.returns[trial.q.argmax()] for trial in trials])),
    }
