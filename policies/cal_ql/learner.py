"""Calibrated Q-learning: conservative critics offline, then online from where they are, without unlearning.

Source: Nakamoto et al., 2023, arXiv:2303.05479. Deviations: RLPD's losses, ensemble and batches underneath; fixed
weights offline and online instead of a Lagrangian.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from policies.cal_ql.config import CalQLConfig
from policies.cal_ql.losses import calibrated_gap
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.learner import RLPDLearner


def make_learner(spec: LearnerSpec, config: CalQLConfig, *, seed: int, device: str = "cpu") -> RLPDLearner:
    """Build RLPD's learner with the conservative term of Cal-QL in its critic loss."""

    def conservative(learner: RLPDLearner, batch: TensorBatch, features: Tensor, q: Tensor) -> Tensor:
        offline = learner.updates < config.pretrain_updates
        weight = config.cql_weight if offline else config.cql_weight_online
        return weight * _gap(learner, batch, features, q, config.cql_actions)

    learner = RLPDLearner(spec, config, seed=seed, device=device, regulariser=conservative)
    learner.name = "cal_ql"
    return learner


def _gap(learner: RLPDLearner, batch: TensorBatch, features: Tensor, q: Tensor, count: int) -> Tensor:
    """Compute `calibrated_gap` of a batch with `count` uniform actions and as many of the policy."""
    rows, size = len(q[0]), learner.layout.arm_size
    uniform = learner.noise(rows, copies=count, draw=torch.rand) * 2 - 1
    with torch.no_grad():
        policy, log_policy, _ = learner.policy.sample(
            features.detach().repeat(count, 1), batch.proprio.repeat(count, 1), learner.noise(rows, copies=count)
        )
    state = learner.critic.encoder(features, batch.proprio).repeat(2 * count, 1)
    others = learner.critic.on_state(state, torch.cat([uniform, policy]))  # (E, 2 * count * B)
    by_action = others.unflatten(1, (2 * count, rows)).transpose(0, 1)
    return calibrated_gap(
        q,
        by_action[:count],
        by_action[count:],
        log_uniform=-size * math.log(2.0),
        log_policy=log_policy.unflatten(0, (count, rows)),
        mc_return=batch.mc_return,
    )
