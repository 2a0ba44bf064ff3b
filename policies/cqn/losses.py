"""Losses of the coarse-to-fine Q-network: TD on distributions of returns, and imitation as an order of bins.

Sources: Bellemare, Dabney and Munos, 2017, arXiv:1707.06887, algorithm 1; Seo, Uruç and James, 2024, arXiv:2407.07787,
section 3. Shapes: B batch, L levels, D action entries, N bins, Z atoms.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


@torch.no_grad()
def projected(probabilities: Tensor, support: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Return the distributions of r + d z, spread over the nearest atoms of the support; returns beyond it are clamped.

    Args:
        probabilities: Of the returns z from o' on, (B, L, D, Z).
        support: Evenly spaced values of z, (Z,).
        reward: r, (B,).
        discount: d, (B,).
    """
    spacing = support[1] - support[0]
    moved = (reward[:, None] + discount[:, None] * support).clamp(support[0], support[-1])
    share = (1 - (moved[:, :, None] - support).abs() / spacing).clamp_min(0.0)  # (B, from, to)
    return torch.einsum("bldz,bzy->bldy", probabilities, share)


def td_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of predicted distributions, logits (B, L, D, Z), from their targets, averaged."""
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1).mean()


def dominance_loss(logits: Tensor, shown: Tensor) -> Tensor:
    """Return by how much a shown bin fails to dominate the bins beside it, (B, D).

    One distribution of returns dominates another where it is nowhere more likely to lie below a value.

    Args:
        logits: Of all bins, (B, L, D, N, Z).
        shown: Those of the shown bins, (B, L, D, Z).
    """
    below = logits.softmax(dim=-1).cumsum(dim=-1)
    shown_below = shown.softmax(dim=-1).cumsum(dim=-1)
    return functional.relu(shown_below[:, :, :, None] - below).sum(dim=-1).mean(dim=(1, 3))


def margin_loss(values: Tensor, shown: Tensor, margin: float) -> Tensor:
    """Return by how much the mean of a shown bin fails to lie a margin above those of all bins, (B, D).

    Its own distance from itself is counted too, as in the published code: a constant.

    Args:
        values: Of all bins, (B, L, D, N).
        shown: Of the shown bins, (B, L, D).
        margin: In units of the return.
    """
    return functional.relu(margin - (shown[..., None] - values)).mean(dim=(1, 3))
