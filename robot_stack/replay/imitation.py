r"""Weights of imitation by progress: an expert step that brought the task further is imitated more than others.

Source: reward-aligned behaviour cloning, Chen et al., 2025, arXiv:2509.25358 (SARM), equations 8 and 9. With r the rise
of the potential Φ over a window, :math:`\mu \ge 0` its mean and :math:`\sigma` its standard deviation over the expert
rows, a row is worth 1 where :math:`r > \kappa`, nothing where :math:`r < 0`, and in between

.. math:: \mathrm{clip}\Big(\frac{r - (\mu - 2\sigma)}{4\sigma}, 0, 1\Big).

Deviations: :math:`\kappa = \mu`, since the paper's 0.01 is of a task of a minute and a half; where less than a window
is left of the episode, its last whole window counts, since little time for progress is not little progress; rows whose
Φ is not known weigh 1, and those of a batch whose Φ is known 1 on average, so that imitation keeps its strength.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEAST_STD = 1e-6
"""Standard deviation of rises below which they do not differ."""


class UsualRise(NamedTuple):
    """How much Φ usually rises over a window: mean, 0 or more, and standard deviation over the expert rows."""

    mean: float
    std: float

    @classmethod
    def of(cls, rises: np.ndarray) -> UsualRise:
        """Measure rises (N,), of which those that are NaN do not count; of none it is 0 and 0."""
        known = rises[np.isfinite(rises)]
        return cls(max(0.0, float(known.mean())), float(known.std())) if len(known) else cls(0.0, 0.0)


def rises(phi: np.ndarray, window: int) -> np.ndarray:
    """Return the rise of Φ over a window that begins at each frame of an episode.

    Args:
        phi: Φ per frame, float, shape (T+1,), in [0, 1], NaN where not valid.
        window: W, frames, 1 or more.

    Returns:
        float64, shape (T+1,), in [-1, 1]. Frames with less than W behind them have the rise over the last W frames, in
        a shorter episode that over all of it. NaN where either end is not valid, and of a single frame.
    """
    last = len(phi) - 1
    if last < 1:
        return np.full(len(phi), np.nan)
    begin = np.minimum(np.arange(last + 1), max(0, last - window))
    values = np.asarray(phi, np.float64)
    return np.asarray(values[np.minimum(begin + window, last)] - values[begin])


def worths(rises: np.ndarray, usual: UsualRise) -> np.ndarray:
    """Return what steps are worth by the rise of Φ behind them, float64, shape (N,), in [0, 1]; NaN where it is NaN.

    Where rises usually do not differ, all are worth the same.
    """
    mean, std = usual
    if std < LEAST_STD:
        return np.where(np.isnan(rises), np.nan, 1.0)
    soft = np.clip((rises - (mean - 2 * std)) / (4 * std), 0.0, 1.0)
    return np.where(np.isnan(rises), np.nan, np.where(rises < 0, 0.0, np.where(rises > mean, 1.0, soft)))


def batch_weights(worth: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """Return the weights of a batch's rows in imitation, with a mean of 1 over its expert rows.

    Args:
        worth: Of each row, shape (B,), in [0, 1], NaN where not known.
        expert: Whether a row is of the expert pool, bool, shape (B,).

    Returns:
        float32, shape (B,), 0 or more: in proportion to their worth for expert rows where it is known, 1 for all other
        rows, and for all where no expert row is worth anything.
    """
    weights = np.ones(len(worth), np.float32)
    known = expert & np.isfinite(worth)
    total = float(worth[known].sum())
    if total > 0.0:
        weights[known] = worth[known] / total * known.sum()
    return weights
