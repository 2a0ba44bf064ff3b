"""Entropic optimal transport between short sequences of frames, many at once."""

from __future__ import annotations

import numpy as np

TINY = 1e-30


def costs_between(frames: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mean squared difference of frames (..., N, D) and others (..., M, D), shape (..., N, M)."""
    squared = (frames**2).sum(-1)[..., :, None] + (others**2).sum(-1)[..., None, :]
    cross = frames @ np.swapaxes(others, -1, -2)
    return np.asarray(np.maximum(squared - 2 * cross, 0.0) / frames.shape[-1])


def transport(costs: np.ndarray, *, entropy: float, iterations: int) -> np.ndarray:
    r"""Return the plans that move mass evenly from N frames to M others at the least cost, with some entropy.

    Sinkhorn's algorithm (Cuturi, 2013, arXiv:1306.0895): :math:`P = \mathrm{diag}(u) K \mathrm{diag}(v)` with
    :math:`K = e^{-C / \epsilon}`, u and v such that rows sum to 1/N and columns to 1/M.

    Args:
        costs: Finite and not negative, shape (..., N, M).
        entropy: ε in units of the mean of each matrix.
        iterations: So many; the rows of the plans that come out sum to 1/N exactly, the columns nearly to 1/M.

    >>> plan = transport(np.array([[0.0, 1.0], [1.0, 0.0]]), entropy=0.1, iterations=50)
    >>> plan.round(3).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    rows, columns = costs.shape[-2:]
    scale = np.maximum(entropy * costs.mean(axis=(-2, -1), keepdims=True), TINY)
    kernel = np.exp(-(costs - costs.min(axis=-1, keepdims=True)) / scale)  # what is taken off a row goes into its u
    v = np.ones((*costs.shape[:-2], columns, 1))
    for _ in range(iterations):
        u = 1 / (rows * np.maximum(kernel @ v, TINY))
        v = 1 / (columns * np.maximum(np.swapaxes(kernel, -1, -2) @ u, TINY))
    u = 1 / (rows * np.maximum(kernel @ v, TINY))
    return np.asarray(u * kernel * np.swapaxes(v, -1, -2))
