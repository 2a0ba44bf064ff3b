"""Pooling of feature maps to the columns that are stored: summaries, keypoints, or the maps themselves.

Shapes: N images, C channels, maps of h rows and w columns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.encoders.config import Pool


class SpatialSoftmax(nn.Module):
    """A layer that locates each channel's activity: the mean of (x, y) under the softmax of its map.

    Source: Levine et al., 2016, arXiv:1504.00702, section 4.2, with a temperature of one.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.grid: Tensor
        y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
        self.register_buffer("grid", torch.stack([x.flatten(), y.flatten()], dim=1), persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Return keypoints (N, 2 * C), all x before all y.

        They lie in [-1, 1], from the centre of the first cell to that of the last.

        Args:
            maps: (N, C, h, w).
        """
        keypoints = torch.softmax(maps.flatten(2), dim=2) @ self.grid  # (N, C, 2)
        return torch.cat([keypoints[..., 0], keypoints[..., 1]], dim=1)


class Pooling(nn.Module):
    """A layer that reduces a backbone's maps (N, C, h, w) or its own summary (N, D) to columns (N, size).

    Args:
        pool: What to keep.
        summary_size: D.
        maps: (C, h, w).
    """

    def __init__(self, pool: Pool, *, summary_size: int, maps: tuple[int, int, int]) -> None:
        super().__init__()
        channels, rows, columns = maps
        self.size = {"pooled": summary_size, "spatial_softmax": 2 * channels}.get(pool, channels * rows * columns)
        self.maps = maps if pool == "spatial_embeddings" else None
        self.keypoints = SpatialSoftmax(rows, columns) if pool == "spatial_softmax" else None
        self.summarised = pool == "pooled"

    def forward(self, maps: Tensor, summary: Tensor) -> Tensor:
        """Reduce maps (N, C, h, w) or summary (N, D) to columns (N, size)."""
        if self.summarised:
            return summary
        return maps.flatten(1) if self.keypoints is None else self.keypoints(maps)
