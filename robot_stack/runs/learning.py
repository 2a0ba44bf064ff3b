"""Curves of learning over robot time: success, success without help, human share, Q and its gradient share. Pure.

The shares of episodes are those of the learner's status: over the newest 20 episodes of the first task in online
training that nobody discarded, by what counted in training. Robot time is the number of online steps by the control
rate, as there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from robot_stack.runs.rows import EpisodeRow, MetricsRow, UpdateRow
from robot_stack.types.transition import EpisodeKind

NEWEST = 20
"""Episodes that a point of the curves covers; fewer at the start."""
MOST_POINTS = 300
"""Of a longer curve every n-th point is shown, and the last."""
Point = tuple[float | None, ...]
EPISODE_CURVES = ("success", "alone", "human")
UPDATE_CURVES = ("q", "q_share")


class Learning:
    """Curves of a run's online training, as far as its rows have come.

    Args:
        rate_hz: Control rate.
    """

    def __init__(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz
        self._steps = 0
        self._newest: deque[EpisodeRow] = deque(maxlen=NEWEST)
        self._episodes: list[Point] = []
        self._updates: list[Point] = []
        self._env_steps = 0
        self.version = 0
        """Counts up at each change."""

    def row(self, row: MetricsRow) -> dict[str, float]:
        """Take in what the learner logged; rows of other kinds change nothing.

        Returns:
            What it adds to the curves: their names, and minutes of robot time as `robot_min`; {} if it adds nothing.
        """
        names: tuple[str, ...] = ()
        point: Point = ()
        if isinstance(row, UpdateRow):
            self._env_steps = row.env_steps
            if row.metrics.get("q") is not None or row.q_share is not None:
                names, point = UPDATE_CURVES, (self._minutes(row.env_steps), row.metrics.get("q"), row.q_share)
                self._updates.append(point)
        elif isinstance(row, EpisodeRow) and row.episode_kind is EpisodeKind.ONLINE:
            self._steps = max(self._steps + row.steps, self._env_steps)  # more where the log was read from its middle
            if not row.goes_back and not row.discarded:
                self._newest.append(row)
                names, point = EPISODE_CURVES, (self._minutes(self._steps), *self._shares())
                self._episodes.append(point)
        self.version += bool(point)
        return {name: value for name, value in zip(("robot_min", *names), point) if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the curves as they are sent to the page; times in minutes of robot time, shares in [0, 1]."""
        minutes, success, alone, human = _columns(self._episodes, 4)
        at, q, q_share = _columns(self._updates, 3)
        return {
            "episodes": {
                "count": len(self._episodes),
                "t": minutes,
                "success": success,
                "alone": alone,
                "human": human,
            },
            "updates": {"t": at, "q": q, "q_share": q_share},
        }

    def _shares(self) -> tuple[float, float, float]:
        count, steps = len(self._newest), sum(row.steps for row in self._newest)
        return (
            sum(row.success for row in self._newest) / count,
            sum(row.success and row.alone for row in self._newest) / count,
            sum(row.human_steps for row in self._newest) / max(1, steps),
        )

    def _minutes(self, steps: int) -> float:
        return steps / self._rate_hz / 60


def _columns(points: Sequence[Point], count: int) -> list[list[float | None]]:
    every = max(1, -(-len(points) // MOST_POINTS))
    last = points[-1:] if (len(points) - 1) % every else []
    shown = [*points[::every], *last]
    return [[None if (value := point[i]) is None else round(value, 4) for point in shown] for i in range(count)]
