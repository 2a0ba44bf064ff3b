"""RLPD losses: SAC with a critic ensemble and a minimum over a random subset.

Source: Ball et al., 2023, arXiv:2302.02948, algorithm 1. On purpose no entropy in the backup and the mean over
critics in the actor loss, as in HIL-SERL (Luo et al., 2024, arXiv:2410.21845). Shapes: B batch, E critics, A action.
No I/O, no logging, no device moves here.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


@torch.no_grad()
def td_target(reward: Tensor, discount: Tensor, next_q: Tensor, *, subset: int, rng: torch.Generator) -> Tensor:
    r"""Bellman target :math:`y = r + d \min_{i \in S} Q'_i(o', a')` with \|S\| = subset.

    Args:
        reward: Shaped reward, summed over n steps, shape (B,).
        discount: γⁿ, or 0 where the task ended, shape (B,).
        next_q: Target critics at (o', a' ~ π), shape (E, B).
        subset: Critics to take the minimum over, in [1, E].
        rng: Draws the subset; seeded by the learner.

    Returns:
        Targets, shape (B,), without gradient.
    """
    chosen = torch.randperm(next_q.shape[0], generator=rng)[:subset]
    return reward + discount * next_q[chosen].min(dim=0).values


def critic_loss(q: Tensor, target: Tensor) -> Tensor:
    """Mean squared TD error over critics and rows; q (E, B), target (B,)."""
    return (q - target).square().mean()


def actor_loss(q: Tensor, log_prob: Tensor, temperature: Tensor) -> Tensor:
    """α log π(a|o) − mean over critics of Q(o, a); q (E, B), log_prob (B,)."""
    return (temperature * log_prob - q.mean(dim=0)).mean()


def imitation_loss(mean_action: Tensor, expert_action: Tensor, expert: Tensor) -> Tensor:
    """Huber distance of the deterministic action to the expert's, over expert rows only.

    Args:
        mean_action: Squashed mean, shape (B, A).
        expert_action: Executed action, shape (B, A).
        expert: Which rows are a person's, bool, shape (B,).
    """
    distance = functional.smooth_l1_loss(mean_action, expert_action, reduction="none", beta=0.2).sum(dim=1)
    return (distance * expert).sum() / expert.sum().clamp_min(1)


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Lagrangian that holds the policy's entropy at `target_entropy` (softplus of the raw parameter is α)."""
    temperature = functional.softplus(log_temperature)
    return -(temperature * (log_prob.detach() + target_entropy)).mean()
