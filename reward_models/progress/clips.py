"""Training clips with their labels: forward, rewound, stalled, out of order, or of another task; and prefixes.

ReWiND's rewind and mismatch (arXiv:2505.10911). Done labels are 1, unknown, 0 from the end of a success backwards, like
VLAC's (arXiv:2509.15937), but counted in frames instead of shares of the episode: an operator says "success" only once
the task has looked finished for a moment, so the last frames before the word all show a finished task, however long the
episode was. Labelled by shares, those frames would be negatives and the model would learn to wait as the operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.progress.config import ProgressConfig
from reward_models.progress.text import other_task, text_features
from reward_models.stages import stage_labels, stage_shares, staged_progress

UNKNOWN = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEpisode:
    """A judged episode as the progress model trains on it.

    Attributes:
        frames: Features and proprio per frame, float32, shape (T+1, D).
        success: True if it ended in success by an operator's word; False for a failure.
        done_frames: Frames at the end of a success that show the finished task.
        refused: True if a model had declared success and an operator refused it.
        stage_starts: First frame of each stage of the task, if an operator has marked them in this success.
        progress: True progress per frame of a success, shape (T+1,), where it is known better than by the clock.
    """

    frames: np.ndarray
    success: bool
    done_frames: int = 2
    refused: bool = False
    stage_starts: tuple[int, ...] = ()
    progress: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """A batch of clips, all float32.

    Attributes:
        frames: Shape (B, K, D).
        text: Features of the words they are shown under, shape (B, TEXT_SIZE).
        progress: Labels in [0, 1], shape (B, K), `UNKNOWN` where not known.
        done: Labels 0 or 1, same.
        weight: Of the done labels, shape (B,).
    """

    frames: np.ndarray
    text: np.ndarray
    progress: np.ndarray
    done: np.ndarray
    weight: np.ndarray


def prefix_indices(last: int, window: int) -> np.ndarray:
    """Return frames of the prefix 0..last, evenly spread, always with the first and the last; shape (window,)."""
    return np.round(np.linspace(0, last, window)).astype(np.int64)


def done_labels(indices: np.ndarray, length: int, done_frames: int) -> np.ndarray:
    """Label frames of a success of `length` frames: 1 in its last `done_frames`, `UNKNOWN` in as many before.

    All earlier frames are 0.
    """
    from_end = length - 1 - indices
    return np.where(from_end < done_frames, 1.0, np.where(from_end < 2 * done_frames, UNKNOWN, 0.0))


def progress_labels(episodes: Sequence[ScoredEpisode]) -> list[np.ndarray]:
    """Label every frame of each episode with its true progress, shape (T+1,); `UNKNOWN` in a failure.

    Where all successes have their stages marked, each stage counts by its mean share of them (SARM). Otherwise what an
    episode says of itself counts, and without that the clock.
    """
    staged = [e.stage_starts for e in episodes if e.success]
    if not staged or not all(staged) or len({len(starts) for starts in staged}) > 1:
        return [_own_progress(e) for e in episodes]
    shares = stage_shares(np.array([np.diff([*e.stage_starts, len(e.frames)]) for e in episodes if e.success]))
    return [
        staged_progress(*stage_labels(e.stage_starts, len(e.frames)), shares)
        if e.success
        else np.full(len(e.frames), UNKNOWN)
        for e in episodes
    ]


def _own_progress(episode: ScoredEpisode) -> np.ndarray:
    if not episode.success:
        return np.full(len(episode.frames), UNKNOWN)
    return np.linspace(0.0, 1.0, len(episode.frames)) if episode.progress is None else episode.progress


class ClipSource:
    """A source that draws training clips from given episodes.

    Args:
        episodes: At least one success.
        text: What the robot was told.
        config: Shares of the kinds of clips.
        rng: Draws them.
    """

    def __init__(
        self, episodes: Sequence[ScoredEpisode], text: str, config: ProgressConfig, rng: np.random.Generator
    ) -> None:
        self._text, self._config, self._rng = text, config, rng
        self._words = text_features(text)
        labelled = list(zip(episodes, progress_labels(episodes), strict=True))
        self._successes = [pair for pair in labelled if pair[0].success]
        self._failures = [pair for pair in labelled if not pair[0].success]

    def draw(self, batch: int) -> Clips:
        """Sample a batch of clips; about one in three comes from failures where there are some."""
        rows = []
        for _ in range(batch):
            pool = self._failures if self._failures and self._rng.random() < 0.35 else self._successes
            rows.append(self._clip(*pool[self._rng.integers(len(pool))]))
        frames, text, progress, done, weight = zip(*rows, strict=True)
        return Clips(
            frames=np.stack(frames).astype(np.float32),
            text=np.stack(text),
            progress=np.stack(progress).astype(np.float32),
            done=np.stack(done).astype(np.float32),
            weight=np.array(weight, dtype=np.float32),
        )

    def _clip(
        self, episode: ScoredEpisode, truth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        rng, config = self._rng, self._config
        indices = self._path(len(truth))
        progress = truth[indices]
        done = done_labels(indices, len(truth), episode.done_frames) if episode.success else np.zeros(config.window)
        words = self._words
        if rng.random() < config.shuffle:
            indices = rng.permutation(indices)
            progress, done = np.full(config.window, UNKNOWN), np.zeros(config.window)
        elif rng.random() < config.mismatch:
            words = text_features(other_task(self._text, rng))
            progress, done = np.zeros(config.window), np.zeros(config.window)
        return episode.frames[indices], words, progress, done, config.negative_weight if episode.refused else 1.0

    def _path(self, length: int) -> np.ndarray:
        """Draw the frames of a clip in the order in which they are shown, shape (window,)."""
        rng, window = self._rng, self._config.window
        last = int(rng.integers(1, length))
        indices = np.linspace(0, last, window)
        if rng.random() < self._config.rewind:  # forward to `last`, then back some of the way
            back = rng.uniform(0.2, 1.0) * last
            path = np.concatenate([np.arange(last + 1), last - np.arange(1, max(2, int(back) + 1))])
            if rng.random() < self._config.recover:  # and on again, at least as far as it had been
                path = np.concatenate([path, np.arange(path[-1] + 1, rng.integers(last, length) + 1)])
            indices = path[np.round(np.linspace(0, len(path) - 1, window)).astype(np.int64)]
        elif rng.random() < self._config.stall:
            indices[rng.integers(1, window) :] = last
        return np.round(indices).astype(np.int64)
