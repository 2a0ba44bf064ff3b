"""Progress and success of the running episode over time, with the spans in which an operator drove. Pure."""

from __future__ import annotations

import math
from typing import Any

from robot_stack.types.command import Mode
from robot_stack.types.reward import LiveScore

MOST_POINTS = 400
"""Of a longer curve every n-th point is shown."""


class Curve:
    """Scores of one episode at a time, with the spans in which an operator drove."""

    def __init__(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz
        self._threshold: float | None = None
        self._episode_id = ""
        self._begun_ns = 0
        self._scores: dict[int, LiveScore] = {}
        self._spans: list[list[float | None]] = []
        self._marks: list[tuple[float, str]] = []
        self.version = 0
        """Counts up at each change."""

    @property
    def newest(self) -> LiveScore | None:
        """Return the score of the latest frame that has one, or None."""
        return self._scores[max(self._scores)] if self._scores else None

    def begin(self, episode_id: str, mode: Mode | None, now_ns: int, *, threshold: float) -> None:
        """Begin the curve of a new episode, in which success is a hit from `threshold` on."""
        self._episode_id, self._begun_ns = episode_id, now_ns
        self._scores, self._spans, self._marks, self._threshold = {}, [], [], threshold
        self.version += 1
        self.drives(mode, now_ns)

    def score(self, score: LiveScore) -> None:
        """Add the score of a frame; scores of other episodes are left out."""
        if score.episode_id == self._episode_id:
            self._scores[score.index] = score
            self.version += 1

    def drives(self, mode: Mode | None, now_ns: int) -> None:
        """Begin or end a span of operator control, by the safety filter's mode."""
        if not self._episode_id:
            return
        at_s = round((now_ns - self._begun_ns) / 1e9, 2)
        running = bool(self._spans) and self._spans[-1][1] is None
        if mode is Mode.HUMAN and not running:
            self._spans.append([at_s, None])
        elif mode is not Mode.HUMAN and running:
            self._spans[-1][1] = at_s
        else:
            return
        self.version += 1

    def mark(self, at_s: float, name: str) -> None:
        """Add the beginning of a stage, seconds after that of the episode."""
        self._marks.append((round(at_s, 2), name))
        self.version += 1

    def to_json(self) -> dict[str, Any]:
        """Return the curve as it is sent to the page.

        Times are seconds since the episode began; NaN is null; an open span ends with null; the threshold is null
        before the first episode.
        """
        every = -(-len(self._scores) // MOST_POINTS) if self._scores else 1
        chosen = [self._scores[index] for index in sorted(self._scores)]
        last = chosen[-1:] if (len(chosen) - 1) % every else []
        shown = [*chosen[::every], *last]
        return {
            "episode": self._episode_id,
            "t": [round(score.index / self._rate_hz, 3) for score in shown],
            "progress": [_plain(score.progress) for score in shown],
            "success": [_plain(score.success) for score in shown],
            "spans": self._spans,
            "marks": self._marks,
            "threshold": self._threshold,
        }


def _plain(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
