"""Sub-goals of a demonstration, found in its features alone: where the way to the next one stops getting shorter.

Seen backwards from a goal, the distance of a frame's features to it grows for as long as the demonstration was on its
way there. Where it falls again, the demonstration was on its way to something else: the frame at that turn is the goal
before, from which the search goes on.

Source: Zhang et al., 2023, "Universal Visual Decomposer", arXiv:2310.08581. Deviations: a turn counts only if the
distance falls far enough, and the clearest turns are kept where the number of stages is known.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

SMOOTH = 0.015
"""Standard deviation of the smoothing of features, as a share of the demonstration."""
LEAST = 0.06
"""Shortest stage, as a share of the demonstration."""
TURN = 0.1
"""How far the distance must fall again before a turn counts, in shares of the furthest frame's to the end."""


def sub_goals(features: np.ndarray, stages: int | None = None) -> tuple[int, ...]:
    """Return the first frame of each stage of a demonstration, the first of them 0; () if it has no two stages.

    Args:
        features: Of each frame, float, shape (T, F), finite.
        stages: How many stages there are; None: as many as are found.

    Raises:
        ValueError: If the features are not (T, F) and finite, or fewer than two stages are asked for.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or not features.size or not np.isfinite(features).all():
        raise ValueError(f"features are {features.dtype} {features.shape}, must be (T, F), at least one, all finite")
    if stages is not None and stages < 2:
        raise ValueError(f"stages are {stages}, must be at least 2; a task of one stage has no sub-goal")
    length = len(features)
    smooth = gaussian_filter1d(features, max(SMOOTH * length, 1e-3), axis=0, mode="nearest")
    least = max(2, round(LEAST * length))
    enough = TURN * float(np.linalg.norm(smooth - smooth[-1], axis=1).max())
    found: list[tuple[float, int]] = []
    goal = length - 1
    while (turn := _turn(np.linalg.norm(smooth[: goal + 1] - smooth[goal], axis=1), least, enough)) is not None:
        found.append(turn)
        goal = turn[1]
    if stages is not None:
        found = sorted(found, reverse=True)[: stages - 1]
    if not found or (stages is not None and len(found) < stages - 1):
        return ()
    return (0, *sorted(frame for _, frame in found))


def _turn(distance: np.ndarray, least: int, enough: float) -> tuple[float, int] | None:
    """Return how far the distance falls before the last turn, and the frame of that; None without one.

    Args:
        distance: To the last frame, shape (t+1,).
        least: Frames that a stage has at least.
        enough: Fall from which on it is a turn.
    """
    goal = len(distance) - 1
    top = goal
    for frame in range(goal - 1, -1, -1):
        if distance[frame] > distance[top]:
            top = frame
            continue
        if goal - top < least:  # still at the goal: noise is no way
            continue
        if distance[top] - distance[frame] >= enough > 0:
            return (float(distance[top] - distance[: top + 1].min()), top) if top >= least else None
    return None
