"""Training clips with their labels: forward, rewound, stalled; and prefixes for scoring.

ReWiND's rewind (arXiv:2505.10911). Done labels are 1, unknown, 0 from the end of a success backwards, like VLAC's
(arXiv:2509.15937), but counted in frames instead of shares of the episode: a person says "success" only once the task
has looked finished for a moment, so the last frames before the word all show a finished task, however long the
episode was. Labelled by shares, those frames would be negatives and the model would learn to wait as the person does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.progress.config import ProgressConfig

UNKNOWN = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEpisode:
    """An episode as the progress model trains on it.

    Attributes:
        frames: Features and proprio per frame, float32, shape (T+1, D).
        success: True if it ended in success by a person's word; False for a failure.
        done_frames: Frames at the end of a success that show the finished task.
        refused: True if a model had declared success and a person refused it.
    """

    frames: np.ndarray
    success: bool
    done_frames: int = 2
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """A batch of clips: frames (B, K, D), progress and done labels (B, K) with `UNKNOWN` masked, weight (B,)."""

    frames: np.ndarray
    progress: np.ndarray
    done: np.ndarray
    weight: np.ndarray


def prefix_indices(last: int, window: int) -> np.ndarray:
    """Frames of the prefix 0..last, evenly spread, always with the first and the last; shape (window,)."""
    return np.round(np.linspace(0, last, window)).astype(np.int64)


def done_labels(indices: np.ndarray, length: int, done_frames: int) -> np.ndarray:
    """Labels of frames of a success of `length` frames: 1 in its last `done_frames`, `UNKNOWN` in as many before."""
    from_end = length - 1 - indices
    return np.where(from_end < done_frames, 1.0, np.where(from_end < 2 * done_frames, UNKNOWN, 0.0))


def draw_clips(
    episodes: Sequence[ScoredEpisode], config: ProgressConfig, rng: np.random.Generator, batch: int
) -> Clips:
    """Sample a batch; successes and failures about evenly where there are failures."""
    successes = [e for e in episodes if e.success]
    failures = [e for e in episodes if not e.success]
    rows = []
    for _ in range(batch):
        pool = failures if failures and rng.random() < 0.35 else successes
        rows.append(_clip(pool[rng.integers(len(pool))], config, rng))
    frames, progress, done, weight = zip(*rows, strict=True)
    return Clips(
        frames=np.stack(frames).astype(np.float32),
        progress=np.stack(progress).astype(np.float32),
        done=np.stack(done).astype(np.float32),
        weight=np.array(weight, dtype=np.float32),
    )


def _clip(
    episode: ScoredEpisode, config: ProgressConfig, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    length = len(episode.frames)
    last = int(rng.integers(1, length))
    indices = np.linspace(0, last, config.window)
    if rng.random() < config.rewind:  # forward to `last`, then back some of the way
        back = rng.uniform(0.2, 1.0) * last
        path = np.concatenate([np.arange(last + 1), last - np.arange(1, max(2, int(back) + 1))])
        indices = path[np.round(np.linspace(0, len(path) - 1, config.window)).astype(np.int64)]
    elif rng.random() < config.stall:
        indices[rng.integers(1, config.window) :] = last
    indices = np.round(indices).astype(np.int64)
    if episode.success:
        progress = indices / (length - 1)
        done = done_labels(indices, length, episode.done_frames)
    else:
        progress = np.full(config.window, UNKNOWN)
        done = np.zeros(config.window)
    return episode.frames[indices], progress, done, config.negative_weight if episode.refused else 1.0
