"""Metrics of rank order: correlation, AUC and shares in order. Pure numpy and scipy; NaN where not defined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import kendalltau, rankdata


def spearman(values: np.ndarray, truth: np.ndarray) -> float:
    """Return the rank correlation, ties with average ranks; NaN if either is constant or shorter than 2.

    Args:
        values: Shape (N,), all valid.
        truth: Same.

    >>> spearman(np.array([0.1, 0.4, 0.9]), np.array([0.0, 0.5, 1.0]))
    1.0
    """
    if len(values) < 2 or np.ptp(values) == 0 or np.ptp(truth) == 0:
        return float("nan")
    return float(np.clip(np.corrcoef(rankdata(values), rankdata(truth))[0, 1], -1.0, 1.0))


def auc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Return the probability that a positive scores above a negative, a tie counting half; NaN without either.

    >>> auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875

    Source: Mann and Whitney, 1947.
    """
    if not len(positives) or not len(negatives):
        return float("nan")
    order = np.sort(negatives)
    below, up_to = (np.searchsorted(order, positives, side=side) for side in ("left", "right"))
    return float((below + up_to).sum() / (2 * len(positives) * len(negatives)))


def kendall_tau(levels: np.ndarray, values: np.ndarray) -> float:
    """Return Kendall's tau-b of scores with the levels they should be ordered by; NaN if either is constant.

    Args:
        levels: 0 for the worst class, 1 for the next, ..., shape (N,).
        values: Scores, same.

    >>> round(kendall_tau(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.9])), 4)
    0.8165
    """
    if len(values) < 2 or np.ptp(values) == 0 or np.ptp(levels) == 0:
        return float("nan")
    return float(kendalltau(levels, values, variant="b").statistic)


def order_rate(classes: Sequence[np.ndarray]) -> float:
    """Return the share of tuples, one score of each class, that rise strictly from class to class.

    It is NaN if a class is empty.

    >>> order_rate([np.array([0.1, 0.6]), np.array([0.5]), np.array([0.9])])  # of two triples one rises
    0.5
    """
    if not classes or any(not len(values) for values in classes):
        return float("nan")
    before, chains = np.sort(classes[0]), np.ones(len(classes[0]))
    for values in classes[1:]:
        order = np.sort(values)
        below = np.concatenate([[0.0], np.cumsum(chains)])[np.searchsorted(before, order, side="left")]
        before, chains = order, below
    return float(chains.sum() / np.prod([float(len(values)) for values in classes]))


def diagonal_margin(matrix: np.ndarray) -> float:
    """Return the mean over videos of the own text's score less the best score under another text.

    It is NaN without another text.

    Args:
        matrix: Row i, videos of text i; column j, their mean score under text j. Shape (R, C), C >= R; the columns
            from R on are texts that no video shows.

    >>> diagonal_margin(np.array([[0.9, 0.2, 0.4]]))
    0.5
    """
    rows, columns = matrix.shape
    if columns < 2 or not rows:
        return float("nan")
    own = np.diagonal(matrix)
    others = matrix.astype(np.float64).copy()
    others[np.arange(rows), np.arange(rows)] = -np.inf
    return float(np.mean(own - others.max(axis=1)))
