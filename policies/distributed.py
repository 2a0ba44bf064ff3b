"""One learner on several GPUs: every rank holds all parameters and updates them on its share of the rows.

Losses and gradients are those of one process with the joint batch: noise is drawn for all rows by every rank, each
takes its own part, counts that a loss divides by are means over the ranks, and so are the gradients. What
`DistributedDataParallel` would do is done by hand, because an update is several backward passes over parts of one
network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The processes (ranks) that train one learner together.

    Attributes:
        index: Of this one; 0 holds the replay and serves the actors.
        count: How many.
    """

    index: int = 0
    count: int = 1

    def mine(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Return this rank's part of a joint tensor along `dim`, whose length must be a multiple of `count`."""
        return rows.chunk(self.count, dim)[self.index]

    def average(self, gradients: Iterable[Tensor | None]) -> None:
        """Replace gradients by their means over the ranks, in one message."""
        if self.count == 1:
            return
        present = [gradient for gradient in gradients if gradient is not None]
        flat = torch.cat([gradient.flatten() for gradient in present])
        distributed.all_reduce(flat)
        flat /= self.count
        parts = flat.split([gradient.numel() for gradient in present])
        torch._foreach_copy_(present, [part.view_as(g) for part, g in zip(parts, present, strict=True)])

    def mean_count(self, chosen: Tensor) -> Tensor:
        """Count the True entries of `chosen`, bool, over all ranks, at least 1, divided by the number of ranks.

        The result is float32, shape ().
        """
        count = chosen.sum().float()
        if self.count > 1:
            distributed.all_reduce(count)
        return count.clamp_min(1) / self.count


ALONE = Ranks()
"""One process."""
