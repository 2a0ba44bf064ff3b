"""The common look of successes: cells of their thumbnails that show the same in all of them, and whether a frame does.

Where a hand holds a part from beginning to end, a camera on the hand shows hand and part in the same cells throughout;
where the task is done, it shows what has come together. Nobody says which cells these are: they are where all
demonstrations agree and where there is something to be seen. A model that has only ever seen hand and part together may
be sure of a hand alone. This comparison has no opinion.

It is the nearest-neighbour memory of patches of PatchCore (Roth et al., 2022, arXiv:2106.08265), with two deviations: a
cell is compared with the same cell alone, and by its colour in a thumbnail instead of by learned features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

Columns = tuple[int, int]
"""First column of a thumbnail in a frame's inputs, and the one after its last; (side, side, 3) in between."""

FEWEST = 4
"""Successes without which nothing is known of how far they differ."""
AGREE = 0.2
"""Distance of a success's cell from the nearest other success's up to which they agree, in spreads of an image."""
STRANGE = 10
"""One success in so many may be further, and at least one: something strange was in view that day."""
EDGE = 0.4
"""Difference among a cell and its neighbours below which there is nothing to be seen, such as a bare table."""
WIDER, LEAST = 2.5, 0.2
"""A cell is odd beyond so many times the distance of the furthest success not strange, which is at least so much."""
LOOSE = 0.75
"""Distance beyond which a cell is odd beside a success of which too few are known to say how far others differ."""
GONE = 6
"""Odd cells of one camera with which a frame no longer looks like the successes: of 64, a tenth of the picture."""
BLANK = 0.3
"""Spread over the cells of a picture below which it shows nothing: that of a scene is near 1."""
KEPT = 400
"""Frames that are remembered, evenly spread over the successes."""
CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonLook:
    """What successes have in common; P cells, M remembered frames, K of successes too few for a look of their own.

    Attributes:
        columns: Entries of a frame's inputs that make up each cell, int64, shape (P, 3).
        camera: Number of the thumbnail that each cell is in, int64, shape (P,).
        reach: Distance from the nearest remembered frame beyond which a cell is odd, float32, shape (P,).
        known: The cells of the remembered frames, float32, shape (M, P, 3).
        few: The cells of frames of other successes, which may look otherwise, float32, shape (K, P, 3).
    """

    columns: np.ndarray
    camera: np.ndarray
    reach: np.ndarray
    known: np.ndarray
    few: np.ndarray

    @classmethod
    def of(cls, successes: Sequence[np.ndarray], thumbnails: Sequence[Columns]) -> CommonLook:
        """Find the cells in which successes agree.

        Args:
            successes: Frames of each that shall be alike, inputs (n, D).
            thumbnails: Columns of each camera's; the look is empty without any, or with fewer than `FEWEST` successes.
        """
        columns = np.concatenate(
            [np.zeros((0, 3), np.int64), *(np.arange(start, stop).reshape(-1, 3) for start, stop in thumbnails)]
        )
        sizes = [(stop - start) // 3 for start, stop in thumbnails]
        camera = np.repeat(np.arange(len(sizes)), sizes)
        if len(successes) < FEWEST or not len(columns):
            return cls._empty()
        cells = _cells(successes, columns)
        away = [
            nearest(own, np.concatenate([other for other in cells if other is not own])).max(axis=0) for own in cells
        ]
        known, furthest = np.concatenate(cells), np.sort(away, axis=0)[-1 - max(1, len(away) // STRANGE)]
        used = (furthest <= AGREE) & (_edges(np.median(known, axis=0), sizes) >= EDGE)
        return cls(
            columns=columns[used],
            camera=camera[used],
            reach=(WIDER * np.maximum(furthest[used], LEAST)).astype(np.float32),
            known=known[:, used],
            few=np.zeros((0, int(used.sum()), 3), np.float32),
        )

    def with_few(self, successes: Sequence[np.ndarray]) -> CommonLook:
        """Return a look that accepts other successes too, too few for a look of their own, inputs (n, D).

        Its cells stay: a frame shall look like these successes or like those, in the same cells.
        """
        return replace(self, few=np.concatenate([self.few, *_cells(successes, self.columns)]))

    @classmethod
    def stored(cls, parts: Mapping[str, np.ndarray]) -> CommonLook:
        """Return the look of stored parts, by the names of the attributes; without `few` it was never adapted."""
        none = np.zeros((0, *parts["known"].shape[1:]), np.float32)
        return cls(**{"few": none, **parts})

    @classmethod
    def _empty(cls) -> CommonLook:
        none = np.zeros(0, np.int64)
        return cls(
            columns=none.reshape(0, 3),
            camera=none,
            reach=np.zeros(0, np.float32),
            known=np.zeros((0, 0, 3), np.float32),
            few=np.zeros((0, 0, 3), np.float32),
        )

    def fits(self, frames: np.ndarray) -> np.ndarray:
        """Return whether each of frames (N, D) looks like the successes, bool, shape (N,)."""
        fitting = np.ones(len(frames), bool)
        for begin in range(0, len(frames) if len(self.columns) else 0, CHUNK):
            part = slice(begin, begin + CHUNK)
            shown = frames[part][:, self.columns]
            fitting[part] = self._alike(nearest(shown, self.known) > self.reach)
            if len(self.few):
                fitting[part] |= self._alike(nearest(shown, self.few) > LOOSE)
        return fitting

    def _alike(self, odd: np.ndarray) -> np.ndarray:
        """Return whether frames look alike, of which some cells are odd, bool (N, P)."""
        cameras = [odd[:, self.camera == number].sum(axis=1) for number in range(int(self.camera.max()) + 1)]
        return np.asarray(np.max(cameras, axis=0) < GONE)


def _cells(successes: Sequence[np.ndarray], columns: np.ndarray) -> list[np.ndarray]:
    """Return the cells of frames that are evenly spread over each success, its last one among them, (n, P, 3)."""
    apart = max(1, math.ceil(sum(map(len, successes)) / KEPT))
    return [own[::-apart][:, columns].astype(np.float32) for own in successes]


def covered(frames: np.ndarray, thumbnails: Sequence[Columns]) -> np.ndarray:
    """Return whether some camera shows nothing at all in frames (N, D): its lens is covered; bool, shape (N,).

    Then nobody can say what is there, and what a model made of the other cameras and of the past may stand.
    """
    found = np.zeros(len(frames), bool)
    for start, stop in thumbnails:
        found |= frames[:, start:stop].reshape(len(frames), -1, 3).std(axis=1).mean(axis=1) < BLANK
    return found


def nearest(frames: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the distance of each cell to the nearest known one at its place, per colour, shape (N, P).

    Args:
        frames: Cells, shape (N, P, 3).
        known: Cells, shape (M, P, 3), at least one frame.
    """
    cross = np.einsum("npc,mpc->nmp", frames, known)
    squared = (frames**2).sum(-1)[:, None] - 2 * cross + (known**2).sum(-1)[None]
    return np.asarray(np.sqrt(np.maximum(squared.min(axis=1), 0.0) / 3))


def _edges(typical: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return how much each cell differs from its neighbours, of typical cells (P, 3) of thumbnails of these sizes."""
    found = [np.zeros(0)]
    for cells in np.split(typical, np.cumsum(sizes)[:-1]):
        side = math.isqrt(len(cells))
        shown = cells.reshape(side, side, 3)
        spread = maximum_filter(shown, size=(3, 3, 1)) - minimum_filter(shown, size=(3, 3, 1))
        found.append(spread.mean(axis=-1).ravel())
    return np.concatenate(found)
