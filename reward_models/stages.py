"""Progress through the named stages of a task. Pure numpy.

Source: SARM (Chen et al., 2025, arXiv:2509.25358): progress of a stage is its mean share of the demonstrations, so
that a stage that one operator dawdled through counts no more than in another demonstration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

ALMOST = 0.999
"""Share of the last stage at its very end: τ stays below 1, so that a stage number and τ can be told apart."""


def stage_shares(lengths: np.ndarray) -> np.ndarray:
    """Return the mean share of an episode that each stage takes, shape (K,), sum 1.

    Args:
        lengths: Frames per stage and demonstration, shape (N, K), each above 0.

    >>> stage_shares(np.array([[1, 3], [3, 1]])).tolist()
    [0.5, 0.5]

    Raises:
        ValueError: If a stage has no frames.
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    if lengths.ndim != 2 or not lengths.size or (lengths <= 0).any():
        raise ValueError(f"stage lengths are {lengths.tolist()}, must be (N, K) frames, each at least 1")
    return np.asarray((lengths / lengths.sum(axis=1, keepdims=True)).mean(axis=0))


def staged_progress(stage: np.ndarray, tau: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""Return the progress Φ = :math:`P_{k-1} + \bar\alpha_k \tau` of staged frames, in [0, 1], shape (T,).

    Args:
        stage: k per frame, int, shape (T,), from 0.
        tau: Share of the stage that is done, in [0, 1], shape (T,).
        shares: From `stage_shares`, shape (K,).

    >>> staged_progress(np.array([0, 1]), np.array([0.5, 0.5]), np.array([0.2, 0.8])).tolist()
    [0.1, 0.6000000000000001]
    """
    before = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
    return np.asarray(np.clip(before[stage] + shares[stage] * np.clip(tau, 0.0, 1.0), 0.0, 1.0))


def stage_labels(starts: Sequence[int], frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Label each frame of a demonstration with its stage k and its share τ of that stage.

    Args:
        starts: First frame of each stage, the first of them 0, rising.
        frames: T of the demonstration.

    Returns:
        k, int64, and τ in [0, `ALMOST`], float64, both shape (T,).

    >>> k, tau = stage_labels([0, 2], 4)
    >>> k.tolist(), tau.tolist()
    ([0, 0, 1, 1], [0.0, 0.5, 0.0, 0.999])

    Raises:
        ValueError: If the stages do not cover the frames in order.
    """
    edges = [*starts, frames]
    if not starts or starts[0] != 0 or any(b <= a for a, b in itertools.pairwise(edges)):
        raise ValueError(f"stages start at {list(starts)}, must rise from 0 and stay below {frames}")
    stage = np.repeat(np.arange(len(starts)), np.diff(edges))
    at = np.arange(frames)
    first, last = np.array(edges[:-1])[stage], np.array(edges[1:])[stage]
    tau = (at - first) / (last - first)
    tau[-1] = ALMOST
    return stage, np.minimum(tau, ALMOST)
