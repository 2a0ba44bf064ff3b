"""The conservative, calibrated critic term of Cal-QL.

Shapes: E critics, B batch, N and M actions of a kind.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
        q_uniform: At uniform actions, (N, E, B).
        q_policy: At the policy's actions, (M, E, B).
        log_uniform: Log density of the uniform actions.
        log_policy: Log density of the policy's, (M, B).
        mc_return: V, (B,), NaN where not known.
    """
    bound = torch.where(torch.isnan(mc_return), torch.full_like(mc_return, -torch.inf), mc_return)
    weighed = torch.cat([q_uniform - log_uniform, torch.maximum(q_policy, bound) - log_policy[:, None]])
    return (torch.logsumexp(weighed, dim=0) - torch.log(torch.tensor(float(len(weighed)))) - q).mean()
