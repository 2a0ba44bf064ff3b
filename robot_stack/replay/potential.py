"""Potentials Φ per frame, joined late. One version is active; switching re-scores the whole replay."""

from __future__ import annotations

import numpy as np

from robot_stack.replay.annotations import check_scores
from robot_stack.replay.frames import EpisodeRows
from robot_stack.replay.imitation import UsualRise, batch_weights, rises, worths
from robot_stack.types.reward import EpisodeScores

MIN_VALID = 0.95
"""Share of frames with a valid Φ below which an episode counts as not scored."""


class PotentialColumn:
    """The potential Φ of each row of a frame table, from one version; NaN where there is none.

    Args:
        imitation_window: Frames over which its rise weighs what is imitated; 0: all rows weigh 1.

    Attributes:
        version: The active one, or None.
        rejected: Scores that were dropped since they did not fit their episode.
        changes: How often the active Φ of an episode, or the active version, has changed.
    """

    def __init__(self, *, imitation_window: int = 0) -> None:
        self.version: str | None = None
        self.rejected = 0
        self.changes = 0
        self._window = imitation_window
        self._scores: dict[str, dict[str, np.ndarray]] = {}
        self._values = np.empty(0, np.float32)
        self._rises = np.empty(0, np.float32)
        self._usual: tuple[np.ndarray, UsualRise] | None = None
        """Expert rows, and how Φ rises from these; None once that may have changed."""

    def add(self, scores: EpisodeScores, rows: EpisodeRows | None) -> None:
        """Keep scores, of which the first of a version and episode count; `rows` is None before the episode has ended.

        Raises:
            StoreError: If they are malformed.
        """
        check_scores(scores)
        known = self._scores.setdefault(scores.version, {})
        if scores.episode_id not in known:
            known[scores.episode_id] = scores.progress.copy()
            if rows is not None and scores.version == self.version:
                self.join(scores.episode_id, rows)

    def join(self, episode_id: str, rows: EpisodeRows) -> None:
        """Write the active version's Φ of an episode that has ended into its rows, all or nothing.

        Single frames without a valid Φ are interpolated between their neighbours: shaping telescopes only where no
        term of it is left out.
        """
        phi = self._scores.get(self.version or "", {}).get(episode_id)
        if phi is None:
            return
        self.changes += 1
        if len(phi) != len(rows.rows):
            self.rejected += 1
        elif np.isfinite(phi).mean() >= MIN_VALID:
            self._reserve(max(rows.rows) + 1)
            valid = np.flatnonzero(np.isfinite(phi))
            whole = np.interp(np.arange(len(phi)), valid, phi[valid])
            self._values[rows.rows] = whole
            if self._window:
                self._rises[rows.rows] = rises(whole, self._window)
                self._usual = None

    def activate(self, version: str | None) -> None:
        """Make a version the active one, and forget all joined Φ; the caller joins the ended episodes anew."""
        self.version = version
        self.changes += 1
        self._values = np.full(len(self._values), np.nan, np.float32)
        self._rises = np.full(len(self._rises), np.nan, np.float32)
        self._usual = None

    def scored(self, version: str | None) -> list[str]:
        """Return the episodes with scores of a version, sorted."""
        return sorted(self._scores.get(version or "", {}))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return Φ at rows, float64, NaN where not valid."""
        self._reserve(int(rows.max(initial=-1)) + 1)
        values: np.ndarray = self._values[rows].astype(np.float64)
        return values

    def imitation(self, rows: np.ndarray, expert: np.ndarray, pool: np.ndarray) -> np.ndarray:
        """Return the weights of a batch's rows in imitation, see `batch_weights`.

        Args:
            rows: int64, shape (B,).
            expert: Whether each is of the expert pool, bool, shape (B,).
            pool: All rows of that pool, int64, shape (N,), which is not written to.
        """
        if not self._window:
            return np.ones(len(rows), np.float32)
        if self._usual is None or self._usual[0] is not pool:
            self._usual = (pool, UsualRise.of(self._rise_at(pool)))
        return batch_weights(worths(self._rise_at(rows), self._usual[1]), expert)

    def _rise_at(self, rows: np.ndarray) -> np.ndarray:
        self._reserve(int(rows.max(initial=-1)) + 1)
        return np.asarray(self._rises[rows], np.float64)

    def _reserve(self, rows: int) -> None:
        if rows > len(self._values):
            self._values = _grown(self._values, rows)
            if self._window:
                self._rises = _grown(self._rises, rows)


def _grown(values: np.ndarray, rows: int) -> np.ndarray:
    grown = np.full(max(1024, 2 * rows), np.nan, np.float32)
    grown[: len(values)] = values
    return grown
