"""Trained network heads, one per part of the features.

Shapes: B batch, C channels, maps of h rows and w columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from policies.encoders.activation import NormTanh
from policies.encoders.trunk import FeaturePart

EMBEDDINGS = 8


class SpatialEmbeddings(nn.Module):
    """Learned weights over the cells of each feature map: (B, C * h * w) -> (B, C * EMBEDDINGS).

    Source: SERL, Luo et al., 2024, arXiv:2401.16013, and HIL-SERL, arXiv:2410.21845. Deviation: the spread of the
    first weights is that of a sum over h * w cells; a normalised dense layer follows either way.
    """

    def __init__(self, maps: tuple[int, int, int]) -> None:
        super().__init__()
        channels, rows, columns = maps
        self.channels = channels
        spread = 1 / math.sqrt(rows * columns)
        self.kernel = nn.Parameter(torch.randn(channels, rows, columns, EMBEDDINGS) * spread)

    def forward(self, features: Tensor) -> Tensor:
        """Sum map times kernel over the cells, one product per channel."""
        cells = features.unflatten(1, (self.channels, -1)).transpose(0, 1)  # (C, B, h * w)
        return torch.bmm(cells, self.kernel.flatten(1, 2)).transpose(0, 1).flatten(1)


def make_head(part: FeaturePart, width: int) -> nn.Module:
    """Build the head of a part, (B, part.size) -> (B, width): dense, LayerNorm, tanh.

    Before it, on maps, stand spatial embeddings.

    Deviation from HIL-SERL: no dropout, whose draws from torch's global generator no checkpoint could repeat.
    """
    if part.maps is None:
        return nn.Sequential(nn.Linear(part.size, width), NormTanh(width))
    return nn.Sequential(
        SpatialEmbeddings(part.maps),
        nn.Linear(part.maps[0] * EMBEDDINGS, width),
        NormTanh(width),
    )
