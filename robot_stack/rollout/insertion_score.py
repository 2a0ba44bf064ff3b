"""The score of an insertion after the rules of Intrinsic's AI for Industry Challenge, from an episode's record.

Source: docs/scoring.md and aic_scoring/src/ScoringTier2.cc of github.com/intrinsic-dev/aic, 13 March 2026 (commit
db40abc). Left out is the point for a submission that loads, so that the most is 99, and the -12 for a wrong socket:
here there is one. The window of 15 samples is laid over the controller's velocity at 500 Hz there, as it says beside it
("For 500 hz = 30 ms"); here over the tool's velocity in the simulation, which has that rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from robot_stack.types.insertion import InsertionRecord

INSERTED, PARTLY_IN, AT_RIM = 75.0, (38.0, 50.0), 25.0
DURATION, JERK, PATH = 12.0, 6.0, 6.0
FORCED, TOUCHED = -12.0, -24.0
FASTEST_S, SLOWEST_S = 5.0, 60.0
ROUGHEST_M_S3 = 50.0
DETOUR_M = 1.0
"""A path this much longer than the way from the plug to its socket gets no point."""
FORCE_N, FORCE_S = 20.0, 1.0
WINDOW = 15
"""Samples of velocity to which a parabola is fitted."""
MOVING_M_S = 0.01
"""Jerk counts only while the tool is faster."""
ASIDE_M, BELOW_M = 0.005, 0.01
"""A plug within so much of the axis, and no deeper than that below where it is fully in, is partly in."""
MOST = INSERTED + DURATION + JERK + PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertionScore:
    """The points of an episode, part by part.

    Attributes:
        insertion: 75 for a plug that is in, 38 to 50 for one partly in, 0 to 25 for one that is near.
        duration, jerk, path: Up to 12, 6 and 6, where there are points for the insertion; 0 elsewhere.
        force: -12 after more than a second above 20 N in all, else 0.
        contact: -24 if something forbidden was touched, else 0.
    """

    insertion: float
    duration: float
    jerk: float
    path: float
    force: float
    contact: float

    @property
    def total(self) -> float:
        """Return the sum of all parts."""
        return sum(asdict(self).values())


def score_insertion(record: InsertionRecord) -> InsertionScore:
    """Return the points of an episode."""
    insertion = insertion_points(record)
    counts = insertion > 0.0
    steps_m = np.linalg.norm(np.diff(record.tcp_m, axis=0), axis=1)
    shortest_m = float(np.linalg.norm(record.plug_m[0]))
    roughness = mean_jerk(record)
    spent_s = float(record.times_s[-1] - record.times_s[0])
    return InsertionScore(
        insertion=insertion,
        duration=_falling(DURATION, 0.0, spent_s, FASTEST_S, SLOWEST_S) if counts else 0.0,
        jerk=_falling(JERK, 0.0, roughness, 0.0, ROUGHEST_M_S3) if counts and roughness is not None else 0.0,
        path=_falling(PATH, 0.0, float(steps_m.sum()), shortest_m, shortest_m + DETOUR_M) if counts else 0.0,
        force=FORCED if seconds_above(record, FORCE_N) > FORCE_S else 0.0,
        contact=TOUCHED if bool(record.forbidden.any()) else 0.0,
    )


def insertion_points(record: InsertionRecord) -> float:
    """Return the points for where the plug was at the end.

    A plug that is not in counts by its depth in the socket, and outside of it by its distance from where it is fully
    in: from the depth of the socket on, until that is reached plus half the distance at the start.
    """
    if record.inserted:
        return INSERTED
    x, y, z = record.plug_m[-1]
    if max(abs(x), abs(y)) < ASIDE_M and -BELOW_M < z < record.depth_m:
        low, high = PARTLY_IN
        return _falling(high, low, float(z), 0.0, record.depth_m)
    first, last = (float(np.linalg.norm(record.plug_m[index])) for index in (0, -1))
    return _falling(AT_RIM, 0.0, last, record.depth_m, record.depth_m + first / 2)


def seconds_above(record: InsertionRecord, force_n: float) -> float:
    """Return for how long in all the force was above a limit, in seconds."""
    above = record.force_n[1:] > force_n
    return float(np.diff(record.times_s)[above].sum())


def mean_jerk(record: InsertionRecord) -> float | None:
    """Return the mean size of the tool's jerk while it moves, m/s³; None if it never does, or not for long enough.

    Jerk is the curvature of the parabola that fits 15 samples of velocity best (Savitzky and Golay, 1964).
    """
    half = WINDOW // 2
    if len(record.velocity_m_s) < WINDOW:
        return None
    moving = np.linalg.norm(record.velocity_m_s[half:-half], axis=1) > MOVING_M_S
    if not moving.any():
        return None
    since = (np.arange(WINDOW) - half) * record.velocity_step_s
    curved = np.linalg.pinv(since[:, None] ** np.arange(3))[2]  # the row that gives the factor of t squared
    windows = np.lib.stride_tricks.sliding_window_view(record.velocity_m_s, WINDOW, axis=0)
    return float(np.linalg.norm(2.0 * windows[moving] @ curved, axis=1).mean())


def summary_of(scores: Sequence[InsertionScore]) -> dict[str, Any]:
    """Return the mean score of several episodes with its parts, and how many were punished.

    Args:
        scores: At least one.
    """
    parts = {part.name: [getattr(one, part.name) for one in scores] for part in fields(InsertionScore)}
    return {
        "mean": round(float(np.mean([one.total for one in scores])), 2),
        "most": MOST,
        "parts": {name: round(float(np.mean(values)), 2) for name, values in parts.items()},
        "forced": sum(one.force < 0 for one in scores),
        "touched": sum(one.contact < 0 for one in scores),
    }


def _falling(most: float, least: float, value: float, at_most: float, at_least: float) -> float:
    """Return `most` up to a value, `least` from another on, and what lies on the line between."""
    if value >= at_least:
        return least
    if value <= at_most:
        return most
    return least + (at_least - value) / (at_least - at_most) * (most - least)
