"""Episodes whose progress can be seen in their features, at a pace that no clock knows."""

from __future__ import annotations

import numpy as np

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig

INPUTS = 16
TEXT = "insert the orange peg into the blue socket"
QUICK = ProgressConfig(members=2, window=8, width=32, layers=1, steps=250, batch=32, learning_rate=2e-3, held_out=2)


def episode(seed: int, *, success: bool = True) -> ScoredEpisode:
    """Progress rises in spurts from 0 to 1, or, in a failure, to 0.4; 16 features are mixtures of it, with noise."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(25, 45))
    pace = rng.gamma(0.5, size=length - 1)
    progress = np.concatenate([[0.0], np.cumsum(pace) / pace.sum()]) * (1.0 if success else 0.4)
    mixing = np.random.default_rng(0).normal(size=(3, INPUTS))  # the same world for all episodes
    causes = np.stack([progress, np.sin(3 * progress), rng.uniform(-1, 1) * np.ones(length)], axis=1)
    frames = causes @ mixing + 0.05 * rng.normal(size=(length, INPUTS))
    return ScoredEpisode(frames=frames.astype(np.float32), success=success)


def episodes(successes: int, failures: int = 0) -> list[ScoredEpisode]:
    """Successes first."""
    return [episode(i) for i in range(successes)] + [episode(100 + i, success=False) for i in range(failures)]


def bent_episode(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """64 features that bend with progress and with five things that have nothing to do with it; frames and progress."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(25, 45))
    pace = rng.gamma(0.5, size=length - 1)
    progress = np.concatenate([[0.0], np.cumsum(pace) / pace.sum()])
    world = np.random.default_rng(0)
    into, out_of = world.normal(size=(8, 32)), world.normal(size=(32, 64))
    other = 0.5 * rng.normal(size=(1, 5)) * np.ones((length, 1))
    causes = np.concatenate([np.stack([progress, progress**2, np.sin(4 * progress)], axis=1), other], axis=1)
    frames = np.tanh(causes @ into) @ out_of * 0.3 + 0.05 * rng.normal(size=(length, 64))
    return frames.astype(np.float32), progress
