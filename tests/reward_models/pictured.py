"""Episodes with thumbnails: a hand before a camera that travels with it, with or without the part in it."""

from __future__ import annotations

import numpy as np

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.common_look import Columns

SIDE = 8
PLAIN = 6
"""Features beside the thumbnail, which say where the hand is and nothing of the part."""
THUMBNAILS: tuple[Columns, ...] = ((PLAIN, PLAIN + SIDE * SIDE * 3),)
PART = (slice(1, 5), slice(3, 5))
"""Cells of the part, in the middle of the hand."""


def pictured(
    seed: int, *, part: bool = True, success: bool = True, lost_at: float = 2.0, light: float = 0.0
) -> ScoredEpisode:
    """A hand that comes down to a block in 25 to 40 frames; without the part from `lost_at` on, of the episode.

    In another `light` every cell is another by so much.
    """
    rng = np.random.default_rng(seed)
    length = int(rng.integers(25, 41))
    way = np.linspace(0, 1, length)
    mixing = np.random.default_rng(0).normal(size=(2, PLAIN))
    plain = np.stack([way, np.sin(3 * way)], axis=1) @ mixing + 0.05 * rng.normal(size=(length, PLAIN))
    views = np.zeros((length, SIDE, SIDE, 3)) + 0.1 * rng.normal(size=3)
    views[:, :4, 2:6] = (-1.0, -1.0, -1.0)  # the hand
    for t, far in enumerate(1 - way):  # the block comes up from below
        top = min(SIDE - 1, 4 + round(4 * far))
        views[t, top:, 1:7] = (-0.5, -0.5, 1.5)
    there = part & (way < lost_at)
    views[np.ix_(there, range(1, 5), range(3, 5))] = (2.0, 0.3, -1.0)
    views += light + 0.05 * rng.normal(size=views.shape)
    frames = np.concatenate([plain, views.reshape(length, -1)], axis=1).astype(np.float32)
    return ScoredEpisode(frames=frames, success=success, done_frames=4, thumbnails=THUMBNAILS)
