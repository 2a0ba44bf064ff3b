"""The look of the finished task: where thumbnails of all successes agree at their end, a finished task looks alike.

Before a camera on the hand that is the hand, the part in it and where the part has come to. The members of a model may
be sure of a hand without its part, which nobody has shown them; this gate has no opinion and only compares. It is the
nearest-neighbour memory of patches of PatchCore (Roth et al., 2022, arXiv:2106.08265), kept apart by place, on
thumbnails instead of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.progress.separation import Columns, pictures

PATCH = 2
"""Cells along a side of a patch; patches overlap."""
FEWEST = 4
"""Successes without which nothing is known of how far finished tasks differ."""
AGREE = 0.2
"""Distance of a success from the nearest other one up to which they agree, in standardised units of an image."""
PLAIN = 0.15
"""Spread inside a patch below which there is nothing to be seen, such as a bare table."""
WIDER, LEAST = 2.5, 0.2
"""A patch is odd beyond so many times the furthest success, and that is at least so far."""
ODD = 3
"""Odd patches with which a frame looks unlike a finished task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLook:
    """What is the same in the thumbnails of all finished tasks.

    Attributes:
        columns: Entries of a frame's inputs that make up each patch, int64, shape (P, C).
        reach: Distance from the nearest finished task beyond which a patch is odd, float64, shape (P,).
    """

    columns: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, ends: Sequence[np.ndarray], thumbnails: Sequence[Columns]) -> FinishedLook:
        """Find the patches in which successes agree.

        Args:
            ends: The last frames of each success, inputs (n, D).
            thumbnails: Columns of each camera's.
        """
        columns = [_patches(ends[0].shape[1], one) for one in thumbnails] if len(ends) >= FEWEST else []
        if not columns:
            return cls(columns=np.zeros((0, 0), np.int64), reach=np.zeros(0))
        patches = np.concatenate(columns)
        away = [
            _nearest(own[:, patches], np.concatenate([other for other in ends if other is not own])[:, patches])
            for own in ends
        ]
        furthest = np.max([one.max(axis=0) for one in away], axis=0)
        typical = np.median(np.concatenate(list(ends)), axis=0)[patches].reshape(len(patches), -1, 3)
        used = (furthest <= AGREE) & (typical.std(axis=1).mean(axis=1) >= PLAIN)
        return cls(columns=patches[used], reach=WIDER * np.maximum(furthest[used], LEAST))

    def fits(self, frames: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return whether frames (N, D) look like a finished task, known finished ones being (M, D); bool, (N,)."""
        if not len(self.columns) or not len(known):
            return np.ones(len(frames), bool)
        odd = _nearest(frames[:, self.columns], known[:, self.columns]) > self.reach
        return np.asarray(odd.sum(axis=1) < ODD)


def _patches(inputs: int, thumbnail: Columns) -> np.ndarray:
    """Return the columns of every patch of one thumbnail, int64, shape (P, PATCH * PATCH * 3)."""
    cells = pictures(np.arange(inputs), thumbnail)
    places = range(len(cells) - PATCH + 1)
    return np.array([cells[i : i + PATCH, j : j + PATCH].ravel() for i in places for j in places], dtype=np.int64)


def _nearest(frames: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the distance of each patch to the nearest known one at its place, per dimension; (N, P, C) gives (N, P)."""
    cross = np.einsum("npc,mpc->nmp", frames, known)
    squared = (frames**2).sum(-1)[:, None] - 2 * cross + (known**2).sum(-1)[None]
    return np.asarray(np.sqrt(np.maximum(squared.min(axis=1), 0.0) / frames.shape[-1]))
