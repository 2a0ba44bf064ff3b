"""Precision, recall, and the threshold for a wanted precision. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The precision and recall of a threshold.

    Attributes:
        threshold: Probability from which on a frame counts as success.
        precision: Share of the frames called success that are; NaN if none is called.
        recall: Share of the successful frames that are called.
        reached: Whether the wanted precision was reached.
    """

    threshold: float
    precision: float
    recall: float
    reached: bool


def operating_point(probabilities: np.ndarray, labels: np.ndarray, threshold: float, wanted: float) -> OperatingPoint:
    """Return the precision and recall of `probabilities >= threshold`, shapes (N,).

    >>> point = operating_point(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]), 0.5, 0.9)
    >>> point.precision, point.recall, point.reached
    (0.5, 0.5, False)
    """
    called = probabilities >= threshold
    true = int((called & (labels == 1)).sum())
    precision = true / int(called.sum()) if called.any() else float("nan")
    recall = true / int((labels == 1).sum()) if (labels == 1).any() else float("nan")
    return OperatingPoint(threshold=threshold, precision=precision, recall=recall, reached=bool(precision >= wanted))


def threshold_for(probabilities: np.ndarray, labels: np.ndarray, wanted: float) -> OperatingPoint:
    """Find the lowest threshold from which on precision is never below `wanted`: highest recall, no luck in it.

    Half-way between the last frame that is called and the next below it, so that it does not sit on a frame. Where no
    threshold reaches it, the highest probability seen, and `reached` is False.

    >>> threshold_for(np.array([0.9, 0.7, 0.6, 0.2]), np.array([1, 1, 0, 0]), 0.95).threshold
    0.65
    """
    order = np.argsort(-probabilities, kind="stable")
    p, y = probabilities[order], labels[order]
    precision = np.cumsum(y) / np.arange(1, len(y) + 1)
    last_of_tie = np.append(p[1:] != p[:-1], True)
    good = (precision >= wanted) | ~last_of_tie
    count = len(good) if good.all() else int(np.argmin(good))  # frames before the first threshold that is too low
    while count and not last_of_tie[count - 1]:
        count -= 1
    if count == 0:
        return operating_point(probabilities, labels, float(p[0]) if len(p) else 1.0, wanted)
    below = p[count] if count < len(p) else 0.0
    return operating_point(probabilities, labels, float((p[count - 1] + below) / 2), wanted)
