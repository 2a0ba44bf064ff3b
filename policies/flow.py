"""A flow over chunks of actions: noise is carried to what was demonstrated along straight lines.

Sources: Lipman et al., 2023, arXiv:2210.02747 (flow matching); Liu et al., 2022, arXiv:2209.03003 (straight lines);
guidance towards a chunk that is going out: Black et al., 2025, arXiv:2506.07339 (real-time chunking), algorithm 1.

Shapes: B batch, S encoded state, N = C * A entries of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from policies.precision import exactly

FREQUENCIES = 8
"""Of the sines and cosines by which a network is told the time; the fastest has a period of 1/32."""
MOST_GUIDANCE = 5.0
"""Largest weight of the pull towards the chunk that is going out (beta of arXiv:2506.07339, its appendix's value)."""


class FlowField(nn.Module):
    """A velocity field over chunks, conditioned on an encoded state and the time.

    Args:
        state: S.
        size: N.
        hidden: Widths of the hidden layers.
    """

    def __init__(self, state: int, size: int, *, hidden: Sequence[int]) -> None:
        super().__init__()
        self.size = size
        self.frequencies: Tensor
        self.register_buffer("frequencies", 2 * math.pi * 2.0 ** torch.arange(FREQUENCIES) / 4)
        inputs, layers = state + size + 2 * FREQUENCIES, list[nn.Module]()
        for width in hidden:
            layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.GELU()]
            inputs = width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(inputs, size)

    def forward(self, state: Tensor, point: Tensor, time: Tensor) -> Tensor:
        """Return velocities (B, N) at points (B, N) and times (B, 1) in [0, 1]."""
        angle = time * self.frequencies
        hidden = self.body(torch.cat([state, point, angle.sin(), angle.cos()], dim=1))
        with exactly(hidden):
            velocity: Tensor = self.out(hidden.to(self.out.weight.dtype))
        return velocity


def flow_loss(velocity: Tensor, noise: Tensor, chunk: Tensor, weight: Tensor, rows: Tensor, count: Tensor) -> Tensor:
    """Return the squared distance of a velocity to the straight line from noise to a chunk.

    Args:
        velocity: At the point on the line, (B, N).
        noise: Where the line begins, (B, N).
        chunk: Where it ends, (B, N).
        weight: Of each entry, 0 where nothing was shown, (B, N).
        rows: Weight of each row, `Batch.imitation`, (B,).
        count: Rows with any entry that was shown, to divide by, as `Ranks.mean_count` has them.

    Returns:
        Weighted mean over rows of the weighted mean over their entries.
    """
    entries = weight.sum(dim=1).clamp_min(1e-6)
    errors = ((velocity - (chunk - noise)).square() * weight).sum(dim=1) / entries
    return (errors * rows).sum() / count


def on_line(noise: Tensor, chunk: Tensor, time: Tensor) -> Tensor:
    """Return the points (B, N) at times (B, 1) on the lines from noise to chunks."""
    return noise + time * (chunk - noise)


def carry(field: FlowField, state: Tensor, noise: Tensor, steps: int) -> Tensor:
    """Carry noise (B, N) to chunks in [-1, 1] by as many Euler steps."""
    point = noise
    for step in range(steps):
        point = point + field(state, point, _time(point, step / steps)) / steps
    return point.clamp(-1.0, 1.0)


def carry_towards(
    field: FlowField, state: Tensor, noise: Tensor, steps: int, *, going_out: Tensor, hold: Tensor
) -> Tensor:
    r"""Carry noise to a chunk that continues another one, by Euler steps that are pulled towards it.

    At each step the end :math:`\hat a = a + (1 - \tau) v` of the line is guessed, and :math:`v` corrected by
    :math:`\min(\beta, \frac{1 - \tau}{\tau r^2})\, (y - \hat a)^T \mathrm{diag}(w)\,
    \frac{\partial \hat a}{\partial a}`, :math:`r^2 = \frac{(1 - \tau)^2}{\tau^2 + (1 - \tau)^2}`.

    Args:
        field: Trained.
        state: (B, S).
        noise: (B, N).
        steps: Of Euler.
        going_out: y, the rest of the chunk that is being played, filled up to (B, N).
        hold: w, how firmly each entry is held to it, 0 to 1, (N,) or (B, N).
    """
    point = noise
    for step in range(steps):
        time = step / steps
        with torch.enable_grad():
            here = point.detach().requires_grad_(True)
            velocity = field(state, here, _time(here, time))
            end = here + (1 - time) * velocity
            missed = ((going_out - end).detach() * hold * end).sum()
            (pull,) = torch.autograd.grad(missed, here)
        spread = (1 - time) ** 2 / (time**2 + (1 - time) ** 2)
        strength = MOST_GUIDANCE if time == 0 else min(MOST_GUIDANCE, (1 - time) / (time * spread))
        point = point + (velocity.detach() + strength * pull) / steps
    return point.clamp(-1.0, 1.0)


def _time(point: Tensor, time: float) -> Tensor:
    return point.new_full((len(point), 1), time)
