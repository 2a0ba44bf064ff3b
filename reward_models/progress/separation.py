"""Failures in which hand and part separate, made from the demonstrations alone: an edit of a frame's thumbnails.

In every demonstration the part is where the hand is, so nothing in them tells a model to look at the part. Here a block
of cells is replaced, where there is something to be seen: where the view changes along an episode, as an arm and what
it holds do before a camera that stands still, or where it has the same edges in all episodes, as a hand and what it
holds do before a camera that travels with them. Nobody says which part is handled, nor which camera is which; sometimes
it is the hand or the goal that goes, and that is no finished task either.

Source of the idea: Li et al., 2021, CutPaste, arXiv:2104.04015, where a patch is pasted elsewhere to learn what is odd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Columns = tuple[int, int]
"""First column of a thumbnail in a frame's inputs, and the one after its last."""

SMALLEST, LARGEST = 0.25, 0.7
"""Sides of the block, of the thumbnail's side."""
CHANGED = 0.25
"""Mean change over the block, in standardised units, below which an edit takes nothing away."""
MOVED = 0.4
"""Distance of a cell from its median over the episode from which on something is there that moves."""
LASTING = 0.75
"""Quantile of the edges in the median frame of all episodes above which a cell counts as a lasting edge."""
BOTH = 0.6
"""Share of edits that are made in all cameras."""
TRIES = 8


def pictures(frames: np.ndarray, columns: Columns) -> np.ndarray:
    """Return a view of one camera's thumbnails in inputs (..., D), shape (..., side, side, 3)."""
    start, stop = columns
    side = math.isqrt((stop - start) // 3)
    return frames[..., start:stop].reshape(*frames.shape[:-1], side, side, 3)


class Separation:
    """An editor of thumbnails that knows the successes whose frames it edits.

    Args:
        episodes: Inputs of each success, float32, shape (T+1, D).
        thumbnails: Columns of each camera's; at least one.
    """

    def __init__(self, episodes: Sequence[np.ndarray], thumbnails: Sequence[Columns], rng: np.random.Generator) -> None:
        self._thumbnails, self._rng = tuple(thumbnails), rng
        self._all = np.concatenate(list(episodes))
        self._lasting = [np.argwhere(_edges(pictures(self._all, columns))) for columns in self._thumbnails]

    def apart(self, frames: np.ndarray, episode: np.ndarray) -> np.ndarray | None:
        """Return copies of frames (K, D) of one episode (T+1, D) with something gone, the same in all of them.

        None if what was drawn takes nothing away.
        """
        edited = frames.copy()
        every = self._rng.random() < BOTH
        chosen = range(len(self._thumbnails)) if every else [int(self._rng.integers(len(self._thumbnails)))]
        done = [self._edit(edited, number, episode) for number in chosen]
        return edited if any(done) else None

    def _edit(self, frames: np.ndarray, number: int, episode: np.ndarray) -> bool:
        """Replace a block in one camera's thumbnails of frames (K, D), in place; False if none changes enough."""
        rng, columns = self._rng, self._thumbnails[number]
        shown = pictures(frames, columns)
        side = shown.shape[1]
        usual = np.median(pictures(episode, columns), axis=0)
        moving = np.argwhere(np.abs(shown[-1] - usual).max(axis=-1) > MOVED)
        for _ in range(TRIES):
            cells = moving if len(moving) and rng.random() < 0.5 else self._lasting[number]
            height, width = rng.integers(max(1, round(SMALLEST * side)), round(LARGEST * side) + 1, 2)
            row, column = np.clip(
                cells[rng.integers(len(cells))] - [height // 2, width // 2], 0, [side - height, side - width]
            )
            block = (slice(row, row + height), slice(column, column + width))
            fill = self._fill(shown, usual, block, columns)
            if np.abs(fill - shown[(slice(None), *block)]).mean() >= CHANGED:
                shown[(slice(None), *block)] = fill
                frames[:, slice(*columns)] = shown.reshape(len(frames), -1)
                return True
        return False

    def _fill(self, shown: np.ndarray, usual: np.ndarray, block: tuple[slice, slice], columns: Columns) -> np.ndarray:
        """Draw what takes the place of a block: what is usual there, another place or time, or one cell's colour."""
        rng, side = self._rng, shown.shape[1]
        height, width = block[0].stop - block[0].start, block[1].stop - block[1].start
        row, column = int(rng.integers(side - height + 1)), int(rng.integers(side - width + 1))
        place = (slice(row, row + height), slice(column, column + width))
        kind = rng.integers(4)
        if kind == 0:
            return usual[block]
        if kind == 1:
            return shown[(slice(None), *place)].copy()
        if kind == 2:
            other = pictures(self._all[rng.integers(len(self._all))], columns)
            return other[block if rng.random() < 0.5 else place]
        return np.broadcast_to(shown[:, row, column][:, None, None], (len(shown), height, width, 3)).copy()


def _edges(shown: np.ndarray) -> np.ndarray:
    """Return the cells of thumbnails (N, side, side, 3) whose median has an edge, bool, shape (side, side)."""
    typical = np.median(shown[:: max(1, len(shown) // 500)], axis=0)
    along = [np.abs(np.diff(typical, axis=axis, append=np.take(typical, [-1], axis=axis))).max(-1) for axis in (0, 1)]
    strength = np.maximum(*along)
    return strength >= np.quantile(strength, LASTING)
