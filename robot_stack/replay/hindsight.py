"""Hindsight: some transitions of a draw are told as if a goal that was reached later had been the one that was given.

Source: Andrychowicz et al., 2017, arXiv:1707.01495, strategy "future". Deviations: an episode of ours ends where the
goal is reached, so a transition into it is terminal; and a sum of several transitions ends at the first frame that
reaches the new goal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.replay.frames import FrameTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """The part of the proprio vector that is a goal, and how often it is relabelled.

    Attributes:
        share: Of the rows of a draw whose goal is relabelled, in (0, 1).
        desired: Entries of the goal, G of them.
        achieved: As many entries, in the same units: what a frame has reached.
        within: Euclidean distance up to which a goal counts as reached.
    """

    share: float
    desired: slice
    achieved: slice
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """The rows of a draw whose goal is relabelled.

    Attributes:
        rows: Which of the B rows, int64, shape (R,).
        desired: Entries of the proprio vector that are replaced, in o and in o'.
        goals: What replaces them, float32, shape (R, G).
        reached: Whether o' reaches the new goal, bool, shape (R,).
    """

    rows: np.ndarray
    desired: slice
    goals: np.ndarray
    reached: np.ndarray


def relabel(
    hindsight: Hindsight, frames: FrameTable, rng: np.random.Generator, path: np.ndarray, steps: np.ndarray
) -> tuple[Relabelled, np.ndarray, np.ndarray]:
    """Give some rows of a draw the goal of a later frame of their episode, drawn uniformly from those after o.

    Args:
        rng: Draws which rows, then which frames.
        path: Rows passed, int64, shape (B, n + 1), as `FrameTable.walk` returns them.
        steps: Transitions made, int64, shape (B,), 1 or more.

    Returns:
        The rows, then path and steps, cut off where a new goal is reached on the way.
    """
    rows = np.flatnonzero(rng.random(len(path)) < hindsight.share)
    begun, newest = path[rows, 0], frames.last_rows(path[rows, 0])
    frame = frames.column("frame")
    after = rng.integers(frame[begun] + 1, frame[newest], endpoint=True)
    proprio = frames.column("proprio")
    goals = proprio[frames.rows_at(begun, after)][:, hindsight.achieved]
    passed = proprio[path[rows, 1:]][..., hindsight.achieved]
    near = np.linalg.norm(passed - goals[:, None], axis=2) <= hindsight.within
    reached = near.any(axis=1)
    steps, path = steps.copy(), path.copy()
    made = np.minimum(steps[rows], np.where(reached, near.argmax(axis=1) + 1, path.shape[1]))
    steps[rows] = made
    path[rows] = np.take_along_axis(path[rows], np.minimum(np.arange(path.shape[1]), made[:, None]), axis=1)
    return Relabelled(rows=rows, desired=hindsight.desired, goals=goals, reached=reached), path, steps
