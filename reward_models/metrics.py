"""Ordering and false-done metrics of reward models, with their conventions. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def voc(values: np.ndarray) -> float:
    """Return the value-order correlation: Spearman of an episode's scores with time; ties get average ranks.

    Args:
        values: Φ per frame, shape (T,). A constant series or T < 2 has no order: NaN.

    Source: GVL (Ma et al., 2024, arXiv:2411.04549).
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or np.ptp(values) == 0 or not np.isfinite(values).all():
        return float("nan")
    from scipy.stats import rankdata  # half a second, which reports and processes that ask for no rank need not wait

    return float(np.corrcoef(rankdata(values), np.arange(len(values)))[0, 1])


def mean_voc(episodes: Sequence[np.ndarray]) -> float:
    """Return the mean VOC of episodes; an episode without an order counts as 0."""
    if not episodes:
        return float("nan")
    return float(np.mean([np.nan_to_num(voc(values), nan=0.0) for values in episodes]))


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson, 1927); (0, 1) when nothing was tried.

    >>> wilson_interval(0, 20)[1] < 0.17
    True
    """
    if trials == 0:
        return (0.0, 1.0)
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    spread = z * np.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return (float(max(0.0, (centre - spread) / scale)), float(min(1.0, (centre + spread) / scale)))


def clock_scores(frames: int) -> np.ndarray:
    """Return the scores of the null model that reads no image: t / T, shape (frames,).

    Its VOC is 1 by construction.
    """
    return np.linspace(0.0, 1.0, frames)
