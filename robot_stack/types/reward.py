"""Scores of frames by a reward model. They arrive late, join by frame, and are never stored as reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

RewardForm = Literal["potential", "difference", "absolute", "sparse"]
"""How Φ becomes reward: Φ(s') discounted less Φ(s), Φ(s') less Φ(s), Φ(s') itself, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScores:
    """Scores of all frames of one episode by one model version.

    Attributes:
        version: Identity of the model: hash of weights and decoding.
        progress: Potential Φ per frame, float32, shape (T+1,), in [0, 1]; NaN where not valid.
        success: Probability of success per frame, float32, shape (T+1,), in [0, 1]; NaN where not valid.
    """

    episode_id: str
    version: str
    progress: np.ndarray
    success: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScore:
    """The newest score of a running episode, as the actor and the console see it.

    Attributes:
        index: Frame it belongs to.
        progress: Φ in [0, 1], or NaN.
        success: Probability in [0, 1], or NaN.
        declared: True once the success rule of the model fired.
    """

    episode_id: str
    index: int
    progress: float
    success: float
    declared: bool
    version: str
