"""A critic that zooms into the range of each action entry, with a distribution of returns for each part of it.

Source: Seo, Uruç and James, 2024, arXiv:2407.07787, section 3. Shapes: B batch, S state, D action entries (over all
ticks of a chunk), L levels, N bins of a level, Z atoms.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.networks import StateEncoder, mlp
from policies.precision import exactly

TIE = 1e-6
"""Values closer than this are equal, and of equal bins the middle one is taken: an untrained critic holds still."""


class CoarseToFineCritic(nn.Module):
    """A critic that values the bins of each action entry, level by level, as distributions of returns.

    At each level an entry's range is divided into bins; the next level divides the chosen one again. Each entry is
    valued by itself, given the centres that were chosen for all of them at the level above.

    Deviation from the paper: value and advantage are two heads of one network instead of two networks.
    """

    def __init__(
        self,
        encoder: StateEncoder,
        size: int,
        *,
        hidden: tuple[int, ...],
        levels: int,
        bins: int,
        atoms: int,
        value_range: tuple[float, float],
    ) -> None:
        super().__init__()
        self.support: Tensor
        self.encoder = encoder
        self.levels, self.bins, self._size = levels, bins, size
        self.body = mlp(encoder.size + size + levels, hidden)
        self.value = nn.Linear(hidden[-1], size * atoms)
        self.advantage = nn.Linear(hidden[-1], size * bins * atoms)
        for layer in (self.value, self.advantage):  # at first all returns are equally likely everywhere
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.register_buffer("support", torch.linspace(*value_range, atoms))

    def logits(self, state: Tensor, centre: Tensor, level: int) -> Tensor:
        """Return the logits (B, D, N, Z) of a level's bins, around centres (B, D)."""
        which = torch.zeros(len(state), self.levels, dtype=state.dtype, device=state.device)
        which[:, level].fill_(1.0)
        hidden = self.body(torch.cat([state, centre, which], dim=1))
        with exactly(hidden):
            wide = hidden.to(self.value.weight.dtype)
            value = self.value(wide).unflatten(1, (self._size, 1, -1))
            advantage = self.advantage(wide).unflatten(1, (self._size, self.bins, -1))
        logits: Tensor = value + advantage - advantage.mean(dim=2, keepdim=True)
        return logits

    def expected(self, logits: Tensor) -> Tensor:
        """Return the mean of each distribution, (..., Z) -> (...)."""
        return (logits.softmax(dim=-1) * self.support).sum(dim=-1)

    def along(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Zoom into an action: logits (B, L, D, N, Z) of all bins on its way, and its own bins, int64 (B, L, D)."""
        centre, logits, chosen = torch.zeros_like(action), [], []
        for level in range(self.levels):
            logits.append(self.logits(state, centre, level))
            chosen.append(bin_of(action, centre, level, self.bins))
            centre = zoom(centre, chosen[-1], level, self.bins)
        return torch.stack(logits, dim=1), torch.stack(chosen, dim=1)

    def best(self, state: Tensor) -> Tensor:
        """Return the action (B, D) in [-1, 1] whose bins are valued most, level by level; NaN where a value is none."""
        centre = torch.zeros(len(state), self._size, device=state.device)
        middle = (torch.arange(self.bins, device=state.device) - (self.bins - 1) / 2).abs()
        for level in range(self.levels):
            values = self.expected(self.logits(state, centre, level))
            centre = zoom(centre, (values - TIE * middle).argmax(dim=2), level, self.bins)
            centre = torch.where(values.isfinite().all(dim=2), centre, torch.nan)
        return centre


def bin_of(action: Tensor, centre: Tensor, level: int, bins: int) -> Tensor:
    """Return the bin of a level that each entry of an action lies in, int64 of the action's shape."""
    half = float(bins) ** -level
    return ((action - centre + half) * (bins / (2 * half))).floor().long().clamp(0, bins - 1)


def zoom(centre: Tensor, chosen: Tensor, level: int, bins: int) -> Tensor:
    """Return the centres of chosen bins of a level that is centred on `centre`."""
    return centre + (chosen - (bins - 1) / 2) * (2 * float(bins) ** -(level + 1))


def of_bins(each: Tensor, chosen: Tensor) -> Tensor:
    """Take the chosen bins (B, L, D) out of (B, L, D, N, ...)."""
    index = chosen.reshape(*chosen.shape, *[1] * (each.dim() - 3)).expand(*chosen.shape, 1, *each.shape[4:])
    return each.gather(3, index).squeeze(3)
