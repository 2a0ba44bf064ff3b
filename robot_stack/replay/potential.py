"""Potentials Φ per frame, joined late. One version is active; switching re-scores the whole replay."""

from __future__ import annotations

import numpy as np

from robot_stack.replay.annotations import check_scores
from robot_stack.replay.frames import EpisodeRows
from robot_stack.types.reward import EpisodeScores

MIN_VALID = 0.95
"""Share of frames with a valid Φ below which an episode counts as not scored."""


class PotentialColumn:
    """The potential Φ of each row of a frame table, from one version; NaN where there is none.

    Attributes:
        version: The active one, or None.
        rejected: Scores that were dropped since they did not fit their episode.
    """

    def __init__(self) -> None:
        self.version: str | None = None
        self.rejected = 0
        self._scores: dict[str, dict[str, np.ndarray]] = {}
        self._values = np.empty(0, np.float32)

    def add(self, scores: EpisodeScores, rows: EpisodeRows | None) -> None:
        """Keep scores, of which the first of a version and episode count; `rows` is None before the episode has ended.

        Raises:
            StoreError: If they are malformed.
        """
        check_scores(scores)
        known = self._scores.setdefault(scores.version, {})
        if scores.episode_id not in known:
            known[scores.episode_id] = scores.progress.copy()
            if rows is not None:
                self.join(scores.episode_id, rows)

    def join(self, episode_id: str, rows: EpisodeRows) -> None:
        """Write the active version's Φ of an episode that has ended into its rows, all or nothing.

        Single frames without a valid Φ are interpolated between their neighbours: shaping telescopes only where no
        term of it is left out.
        """
        phi = self._scores.get(self.version or "", {}).get(episode_id)
        if phi is None:
            return
        if len(phi) != len(rows.rows):
            self.rejected += 1
        elif np.isfinite(phi).mean() >= MIN_VALID:
            self._reserve(max(rows.rows) + 1)
            valid = np.flatnonzero(np.isfinite(phi))
            self._values[rows.rows] = np.interp(np.arange(len(phi)), valid, phi[valid])

    def activate(self, version: str | None) -> None:
        """Make a version the active one, and forget all joined Φ; the caller joins the ended episodes anew."""
        self.version = version
        self._values = np.full(len(self._values), np.nan, np.float32)

    def scored(self, version: str | None) -> list[str]:
        """Return the episodes with scores of a version, sorted."""
        return sorted(self._scores.get(version or "", {}))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return Φ at rows, float64, NaN where not valid."""
        self._reserve(int(rows.max(initial=-1)) + 1)
        values: np.ndarray = self._values[rows].astype(np.float64)
        return values

    def _reserve(self, rows: int) -> None:
        if rows > len(self._values):
            grown = np.full(max(1024, 2 * rows), np.nan, np.float32)
            grown[: len(self._values)] = self._values
            self._values = grown
