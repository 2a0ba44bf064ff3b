"""Thumbnails of a frame's images, which reward models get beside the features of a trunk.

What a trunk learns to see is what its objectives need. Those of demonstrations need the hand and where it goes, and not
the part in the hand, which in every demonstration is where the hand is. A thumbnail has no objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from policies.encoders.trunk import Trunk

LEAST_CONTRAST = 1.0
"""Added to the spread of a colour, of 255: noise on a black image is no scene."""


def standardised(images: Tensor) -> Tensor:
    """Standardise each colour of images (N, H, W, 3) in [0, 255] over its pixels; returns (N, 3, H, W).

    Light of another brightness or colour, which multiplies it, then changes nothing: a policy sees by day what it
    learned in the evening.
    """
    pixels = images.permute(0, 3, 1, 2).float()
    spread, mean = torch.std_mean(pixels, dim=(2, 3), keepdim=True)
    return (pixels - mean) / (spread + LEAST_CONTRAST)


def shrink(images: Mapping[str, Tensor], side: int) -> Tensor:
    """Return a thumbnail of each camera's images, side by side, (N, cameras * side * side * 3), in standardised units.

    Args:
        images: Camera -> (N, H, W, 3) in [0, 255].
        side: Cells along rows and columns; each is the mean of its pixels.
    """
    small = [functional.adaptive_avg_pool2d(standardised(pixels), side) for pixels in images.values()]
    return torch.cat([one.permute(0, 2, 3, 1).flatten(1) for one in small], dim=1)


def thumbnails_of(trunk: Trunk) -> tuple[tuple[int, int], ...]:
    """Return the columns [start, stop) of each thumbnail in a trunk's features: those beyond its parts; often none.

    Each is (side, side, 3), flattened.
    """
    start = max((part.slice.stop for part in trunk.parts), default=0)
    size = (trunk.feature_size - start) // max(1, len(trunk.shapes))
    if not size:
        return ()
    assert math.isqrt(size // 3) ** 2 * 3 == size
    return tuple((start + i * size, start + (i + 1) * size) for i in range(len(trunk.shapes)))
