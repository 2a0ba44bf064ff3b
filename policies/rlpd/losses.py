"""RLPD losses: SAC with a critic ensemble and a minimum over a random subset.

Source: Ball et al., 2023, arXiv:2302.02948, algorithm 1. On purpose no entropy in the backup and the mean over
critics in the actor loss, as in HIL-SERL (Luo et al., 2024, arXiv:2410.21845). Shapes: B batch, E critics, A action.
No I/O, no logging, no device moves here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


@torch.no_grad()
def td_target(reward: Tensor, discount: Tensor, next_q: Tensor, subset: Tensor, *, mean: bool = False) -> Tensor:
    r"""Return the Bellman target :math:`y = r + d \min_{i \in S} Q'_i(o', a')` of a batch.

    Args:
        reward: Shaped reward, summed over n steps, shape (B,).
        discount: γⁿ, or 0 where the task ended, shape (B,).
        next_q: Target critics at (o', a' ~ π), shape (E, B).
        subset: S, the critics to take the minimum over, int64, shape (\|S\|,).
        mean: Take their mean instead.

    Returns:
        Targets, shape (B,), without gradient.
    """
    chosen = next_q[subset]
    return reward + discount * (chosen.mean(dim=0) if mean else chosen.min(dim=0).values)


def critic_loss(q: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared TD error over critics and rows; q (E, B), target (B,)."""
    return (q - target).square().mean()


def correction_loss(q: Tensor, q_proposed: Tensor, distance: Tensor, count: Tensor, *, margin: float) -> Tensor:
    r"""Return the squared amount by which the critics fail to value corrections above what they corrected.

    It is :math:`[m \lVert a - \tilde a \rVert - (Q(o, a) - Q(o, \tilde a))]_+^2`, averaged over critics and corrected
    rows. A take-over is a preference: the operator judged the policy's action ã worse than what he did instead.

    Source: the margin of Hester et al., 2018, arXiv:1704.03732, equation 1. Deviations: the action that loses is the
    one that the policy had proposed, not the best of all; the margin grows with the distance between the two, so that
    a correction of nothing asks for nothing; squared, so that it weighs as the TD error does.

    Args:
        q: Critics at the executed actions, (E, B).
        q_proposed: At the policy's proposals, (E, B).
        distance: Of the two actions, (B,); 0 where nothing was corrected.
        count: Corrected rows, to divide by, as `Ranks.mean_count` has them.
        margin: m.
    """
    missed = functional.relu(margin * distance - (q - q_proposed)) * (distance > 0)
    return missed.square().mean(dim=0).sum() / count


def actor_loss(q: Tensor, log_prob: Tensor, temperature: Tensor, *, q_weight: float) -> Tensor:
    """Return α log π(a|o) − w times the mean over critics of Q(o, a), averaged over rows; q (E, B), log_prob (B,)."""
    return (temperature * log_prob - q_weight * q.mean(dim=0)).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Return the Lagrangian that holds the policy's entropy at `target_entropy`; α is the raw value's softplus."""
    temperature = functional.softplus(log_temperature)
    return -(temperature * (log_prob.detach() + target_entropy)).mean()


def calibrated_gap(
    q: Tensor,
    q_uniform: Tensor,
    q_policy: Tensor,
    *,
    log_uniform: float,
    log_policy: Tensor,
    mc_return: Tensor,
) -> Tensor:
    r"""Return by how much the critics value other actions above the executed ones, calibrated by known returns.

    :math:`\frac{1}{EB}\sum \log \frac{1}{M} \sum_j e^{\max(Q_j, V) - \log p_j} - Q(o, a)`, where only the policy's
    actions are calibrated by V, the return that the executed behaviour reached.

    Source: Nakamoto et al., 2023, arXiv:2303.05479, equation 5; importance weights as in CQL (arXiv:2006.04779,
    appendix F). Deviation: where no return is known (an episode that is open or was cut short), V is minus infinity
    and the row is plain CQL.

    Args:
        q: Critics at the executed actions, (E, B).
        q_uniform: At N uniform actions, (N, E, B).
        q_policy: At M actions of the policy, (M, E, B).
        log_uniform: Log density of the uniform actions.
        log_policy: Log density of the policy's, (M, B).
        mc_return: V, (B,), NaN where not known.
    """
    bound = torch.where(torch.isnan(mc_return), torch.full_like(mc_return, -torch.inf), mc_return)
    weighed = torch.cat([q_uniform - log_uniform, torch.maximum(q_policy, bound) - log_policy[:, None]])
    return (torch.logsumexp(weighed, dim=0) - math.log(len(weighed)) - q).mean()


def gripper_target(target: Tensor, change: Tensor, *, penalty: float) -> Tensor:
    r"""Return the target of each gripper, :math:`y - c\,\mathrm{change}`, shape (B, G).

    Source: the penalty on effective changes is HIL-SERL's. Deviation: y is the target of the arms' critics, where
    HIL-SERL has a double-DQN target of the gripper's own. The margin around an operator's choice raises U above what
    anything is worth; a target with a maximum over U takes that over, and where the policy did something else for
    many ticks it grows to :math:`m / (1 - \gamma)`.

    Args:
        target: y, of the arms' critics, (B,).
        change: True where the executed entry changed the gripper, bool (B, G).
        penalty: c.
    """
    return target[:, None] - penalty * change


def gripper_loss(q: Tensor, choices: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared TD error of the discrete grippers, over all rows: what was executed is data.

    Args:
        q: (B, G, choices).
        choices: What was executed, int64 (B, G).
        target: (B, G).
    """
    return (q.gather(2, choices[..., None]).squeeze(2) - target).square().mean()


def gripper_margin_loss(q: Tensor, choices: Tensor, weight: Tensor, count: Tensor, *, margin: float) -> Tensor:
    r"""Return by how much the critic of the discrete grippers misses the margin around what an operator chose.

    It is :math:`\max_u [U(o, u) + m\,(u \ne u_E)] - U(o, u_E)`, averaged over the entries with a label.

    Source: Hester et al., 2018, arXiv:1704.03732, equation 1. Deviation: rare choices weigh more, see
    `policies.imitation.balance`.

    Args:
        q: (B, G, choices).
        choices: What the operator chose, int64 (B, G).
        weight: Weight of each entry, 0 where it is no label, (B, G).
        count: Entries with a label, to divide by, as `Ranks.mean_count` has them.
        margin: m.
    """
    chosen = choices[..., None]
    others = (q + margin).scatter(2, chosen, q.gather(2, chosen))
    missed = others.max(dim=2).values - q.gather(2, chosen).squeeze(2)
    return (missed * weight).sum() / count
