"""Calibration of a done logit to a probability, on episodes that were not trained on. Pure numpy and scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

PRIOR = 1.0
"""Episodes whose evidence is worth as much as the belief that the logits are right as they are."""
CERTAIN = 0.99
"""Probability that a label stands for: a frame may be labelled wrongly."""


def platt(logits: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> tuple[float, float]:
    """Fit scale above 0 and offset, so that sigmoid(scale * logit + offset) is the probability of the label.

    Args:
        logits: Of the frames of each episode, shape (T,).
        labels: 0 or 1, of the same shapes.

    Returns:
        (1, 0) without both kinds of labels. With few episodes near that: two that were held out prove little.

    Source: Platt, 1999. Deviations: the frames of an episode are alike and count as one, of either label; targets are
    `CERTAIN`, since counts of frames say nothing; a prior towards (1, 0).
    """
    counts = [[int((each == kind).sum()) for kind in (0, 1)] for each in labels]
    if not all(np.array(counts).reshape(-1, 2).sum(axis=0)):
        return 1.0, 0.0
    share = np.concatenate([1.0 / np.array(of)[each.astype(int)] for of, each in zip(counts, labels, strict=True)])
    z, y = np.concatenate(logits), np.concatenate(labels)
    target = np.where(y == 1, CERTAIN, 1.0 - CERTAIN)

    def cost(at: np.ndarray) -> float:
        moved = np.exp(at[0]) * z + at[1]
        entropy = np.logaddexp(0, moved) - target * moved
        return float((share * entropy).sum() + PRIOR * (at[0] ** 2 + at[1] ** 2 / 4))

    best = minimize(cost, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6}).x
    return float(np.exp(best[0])), float(best[1])


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> float:
    """Return the expected calibration error of probabilities.

    It is the mean gap between what is said and what is, weighted by how often it is said.

    >>> calibration_error(np.array([0.0, 1.0]), np.array([0, 1]))
    0.0
    """
    if not len(labels):
        return float("nan")
    which = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = [
        abs(probabilities[which == b].mean() - labels[which == b].mean()) * (which == b).mean()
        for b in np.unique(which)
    ]
    return float(sum(gaps))
