"""Checks for jerky motion of an operator, which a policy that imitates it would have to imitate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.datasets.findings import Span, spans
from robot_stack.datasets.limits import CheckLimits
from robot_stack.types.command import Source
from robot_stack.types.spec import Spec


def motion_axes(spec: Spec) -> np.ndarray:
    """Return the positions of everything but grippers in the action vector, int, shape (M,)."""
    return np.setdiff1d(np.arange(spec.action_size), spec.gripper_indices)


def jerky(executed: np.ndarray, source: np.ndarray, limits: CheckLimits) -> list[Span]:
    """Find stretches in which an operator's action leaps from one step to the next; value: the largest leap.

    A policy that explores leaps on purpose, so both steps must be the operator's.

    Args:
        executed: Without grippers, float32, shape (T, M), in [-1, 1].
        source: `Source`, shape (T,).
        limits: `jerk`.

    Returns:
        Spans of frames: the first one is where the action before the leap began.
    """
    leaps = np.abs(np.diff(executed, axis=0)).max(axis=1, initial=0.0)
    human = source == Source.HUMAN
    found = spans((leaps > limits.jerk) & human[1:] & human[:-1], leaps)
    return [Span(first=span.first, last=span.last + 1, value=span.value) for span in found]


def roughness(executed: np.ndarray) -> float:
    r"""Measure how rough a motion is, at any speed and length: :math:`\mathrm{rms}(\Delta^2 v) / \mathrm{rms}(v)`.

    v is the commanded velocity, so its second difference is the jerk per squared period. A dimensionless jerk in the
    sense of Hogan and Sternad, 2009 (J. Motor Behavior 41(6)), but without their cube of the duration, which would
    make a long demonstration a rough one. 0 for a constant velocity, 4 for one that turns over at each step.

    Args:
        executed: Without grippers, shape (T, M).

    Returns:
        NaN for fewer than three steps or an arm that never moves.
    """
    speed = float(np.sqrt(np.mean(np.square(executed, dtype=np.float64)))) if executed.size else 0.0
    if len(executed) < 3 or speed == 0.0:
        return float("nan")
    jerk = np.diff(executed.astype(np.float64), n=2, axis=0)
    return float(np.sqrt(np.mean(np.square(jerk)))) / speed


def outliers(values: Mapping[str, float], limits: CheckLimits) -> dict[str, float]:
    """Return the modified z-score of the episodes whose value lies far above the others'.

    0.6745 (x - median) / MAD, Iglewicz and Hoaglin, 1993; needs five values or more. NaN is left out.
    """
    known = {name: value for name, value in values.items() if np.isfinite(value)}
    if len(known) < 5:
        return {}
    array = np.array(list(known.values()))
    median = np.median(array)
    spread = max(float(np.median(np.abs(array - median))), 0.05 * abs(float(median)), 1e-9)
    scores = 0.6745 * (array - median) / spread
    return {name: float(score) for name, score in zip(known, scores, strict=True) if score > limits.jerk_score}
