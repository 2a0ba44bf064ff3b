"""RLPD on a task whose best policy and value are known in closed form: the discounted linear-quadratic regulator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner

pytestmark = pytest.mark.long

GAIN, STATE_COST, ACTION_COST, DISCOUNT = 0.5, 1.0, 0.5, 0.9
"""x' = x + GAIN a, reward -(STATE_COST x^2 + ACTION_COST a^2)."""
SPEC = LearnerSpec(
    parts=(FeaturePart(slice=slice(0, 2), maps=None),),
    proprio_mean=torch.zeros(2),
    proprio_std=torch.ones(2),
    actions=2,
)
CONFIG = RLPDConfig(
    hidden=(64, 64),
    head=32,
    learning_rate=1e-3,
    target_tau=0.02,
    actor_tau=0.02,
    bc_weight=0.0,
    critic_actor_ratio=1,
    target_entropy_per_action=-2.0,
)


def riccati() -> tuple[float, float]:
    """(P, K): the best value is -P x^2 and the best action -K x, for each of the two independent axes."""
    p = STATE_COST
    for _ in range(1000):
        k = DISCOUNT * GAIN * p / (ACTION_COST + DISCOUNT * GAIN**2 * p)
        p = STATE_COST + ACTION_COST * k**2 + DISCOUNT * (1 - GAIN * k) ** 2 * p
    return p, k


def transitions(rng: np.random.Generator, count: int) -> TensorBatch:
    """Of a policy that knows nothing: uniform over states and over the actions that keep them within +-1."""
    x = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    a = rng.uniform(np.maximum(-1, (-1 - x) / GAIN), np.minimum(1, (1 - x) / GAIN)).astype(np.float32)
    following = x + np.float32(GAIN) * a
    state, after = torch.from_numpy(x), torch.from_numpy(following)
    none = torch.zeros(count, dtype=torch.bool)
    return TensorBatch(
        features=state,
        proprio=state,
        action=torch.from_numpy(a),
        proposed=torch.from_numpy(a),
        reward=torch.from_numpy(-(STATE_COST * x**2 + ACTION_COST * a**2).sum(axis=1)),
        discount=torch.full((count,), DISCOUNT),
        next_features=after,
        next_proprio=after,
        expert=none,
        imitation=torch.ones(count),
        human=none[:, None],
        label=torch.ones(count, 2, dtype=torch.bool),
        gripper_change=torch.zeros(count, 0, dtype=torch.bool),
        mc_return=torch.full((count,), torch.nan),
    )


def test_policy_and_values_reach_the_known_optimum() -> None:
    p, k = riccati()
    learner, rng = RLPDLearner(SPEC, CONFIG, seed=0), np.random.default_rng(0)
    before = distance_to_optimum(learner, p, k)
    for _ in range(1500):
        learner.update(transitions(rng, 128))
    action_error, value_error = distance_to_optimum(learner, p, k)
    assert action_error < 0.06 < 0.3 < before[0]
    assert value_error < 0.15 < 0.6 < before[1]


def distance_to_optimum(learner: RLPDLearner, p: float, k: float) -> tuple[float, float]:
    """Rms of the action's error over states within +-0.7, and of the value's, relative to its spread over them.

    The value may lie below the best by a constant: what the policy's noise costs from here to eternity.
    """
    x = torch.from_numpy(np.random.default_rng(1).uniform(-0.7, 0.7, (500, 2)).astype(np.float32))
    with torch.no_grad():
        action = learner.published.actor.deterministic(x, x)
        q = learner.critic(x, x, -k * x).mean(dim=0)
    best = -p * x.square().sum(dim=1)
    return float((action + k * x).square().mean().sqrt()), float((q - best).std() / best.std())
