"""Calibration of a done logit to a probability, on episodes that were not trained on. Pure numpy and scipy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

PRIOR = 8.0
"""Frames whose evidence is worth as much as the belief that the logits are right as they are."""


def platt(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Fit scale above 0 and offset, so that sigmoid(scale * logit + offset) is the probability of the label.

    Args:
        logits: Shape (N,).
        labels: 0 or 1, shape (N,).

    Returns:
        (1, 0) without both kinds of labels. With few frames near that: two held-out episodes prove little.

    Source: Platt, 1999; the targets are smoothed as there. Deviation: a prior towards (1, 0).
    """
    positive, negative = float((labels == 1).sum()), float((labels == 0).sum())
    if not positive or not negative:
        return 1.0, 0.0
    target = np.where(labels == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    share = np.where(labels == 1, 0.5 / positive, 0.5 / negative) * len(labels)  # both kinds count alike

    def cost(at: np.ndarray) -> float:
        z = np.exp(at[0]) * logits + at[1]
        entropy = np.logaddexp(0, z) - target * z
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
