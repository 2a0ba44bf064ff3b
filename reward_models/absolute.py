"""Conversion of single-frame scores of published models to numbers in a known range. Pure numpy, no model."""

from __future__ import annotations

import numpy as np


def goal_baseline(state: np.ndarray, goal: np.ndarray, baseline: np.ndarray, *, alpha: float) -> np.ndarray:
    r"""Return the goal-baseline reward :math:`1 - \frac12 \|\alpha \, \mathrm{proj}_L s + (1 - \alpha) s - g\|^2`.

    L is the line through the embeddings of the baseline text ("a robot arm") and the goal text ("a robot arm that has
    put the peg into the socket"): what an image shows across that line has nothing to do with the task.

    Args:
        state: Image embeddings, shape (..., D); of any length, they are normalised.
        goal: Embedding of the goal text, shape (D,).
        baseline: Embedding of the baseline text, shape (D,).
        alpha: 0 is the plain cosine with the goal; 1 drops everything across the line.

    Returns:
        At most 1, and 1 only at the goal, shape (...).

    >>> e = np.eye(3)
    >>> float(goal_baseline(e[0], e[0], e[1], alpha=1.0))
    1.0
    >>> round(float(goal_baseline(e[1], e[0], e[1], alpha=1.0)), 12)  # b . g
    0.0

    Raises:
        ValueError: If an embedding has no length, goal and baseline are the same, or alpha is outside [0, 1].

    Source: VLM-RM (Rocamonde et al., 2023, arXiv:2310.12921), definition 1.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}, must be in [0, 1]")
    s, g, b = _normal(state), _normal(goal), _normal(baseline)
    direction = g - b
    length = float(np.linalg.norm(direction))
    if length < 1e-9:
        raise ValueError("goal and baseline texts have the same embedding, must differ; reword the baseline")
    direction = direction / length
    on_line = b + ((s - b) @ direction)[..., None] * direction
    gap = alpha * on_line + (1 - alpha) * s - g
    return np.asarray(1 - 0.5 * np.square(gap).sum(axis=-1))


def between(low: float, high: float, score: np.ndarray) -> np.ndarray:
    """Scale a score with known ends to Φ in [0, 1]; NaN stays NaN.

    >>> between(1, 5, np.array([1.0, 3.0, 7.0])).tolist()  # RoboReward's 1 to 5
    [0.0, 0.5, 1.0]
    """
    if not low < high:
        raise ValueError(f"low is {low}, must be below high, {high}")
    return np.clip((np.asarray(score, dtype=np.float64) - low) / (high - low), 0.0, 1.0)


def _normal(vectors: np.ndarray) -> np.ndarray:
    vectors = np.asarray(vectors, dtype=np.float64)
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (length > 0).all():
        raise ValueError("embedding has length 0 or is not finite, must be a direction")
    return np.asarray(vectors / length)
