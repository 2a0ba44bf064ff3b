"""A sampled batch, numpy side. B rows, A action entries, P proprio entries, F feature entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B transitions (o, a, r, o'), each from inside one episode.

    Attributes:
        features: Frozen-trunk features of o, float16, shape (B, F); images do not travel when the trunk is frozen.
        proprio: Of o, float32, shape (B, P).
        action: Executed, float32, shape (B, A).
        reward: Sparse plus shaping, float32, shape (B,).
        discount: γⁿ, or 0 where the task ended, float32, shape (B,).
        next_features: Of o', float16, shape (B, F).
        next_proprio: Of o', float32, shape (B, P).
        expert: True for rows drawn from the expert pool (demos and human steps), bool, shape (B,).
        gripper_label: False where a human step says nothing about the gripper, bool, shape (B,).
        episode: Index of the episode each row came from, int64, shape (B,).
        frame: Frame t of each row, int64, shape (B,).
    """

    features: np.ndarray
    proprio: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    next_features: np.ndarray
    next_proprio: np.ndarray
    expert: np.ndarray
    gripper_label: np.ndarray
    episode: np.ndarray
    frame: np.ndarray
