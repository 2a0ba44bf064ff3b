"""Training clips with their labels: forward, rewound, stalled or out of order; and prefixes.

ReWiND's rewind (arXiv:2505.10911). Done labels are 1, unknown, 0 from the end of a success backwards, like
VLAC's (arXiv:2509.15937), but counted in frames instead of shares of the episode: an operator says "success" only once
the task has looked finished for a moment, so the last frames before the verdict all show a finished task, however long
the episode was. Labelled by shares, those frames would be negatives and the model would learn to wait as the operator
does.

Progress through named stages is SARM's (Chen et al., 2025, arXiv:2509.25358): that of a stage is its mean share of the
demonstrations, so that a stage that one operator dawdled through counts no more than in another demonstration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.progress.config import ProgressConfig
from reward_models.progress.orders import Order, OrderedPair

ALMOST = 0.999
"""Share of the last stage at its very end: τ stays below 1, so that a stage number and τ can be told apart."""
UNKNOWN = -1.0
FEWEST_STAGED = 4
"""Successes with marked stages from which on these say what progress is, though others have no marks."""
WHOLE_EPISODE = 0.2
"""Share of clips that run to the very end at first: what comes after it is otherwise hardly ever seen."""


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
    ends = np.array(edges[1:])
    ends[-1] = max(frames - 1, starts[-1] + 1)  # the task is done in the last frame, not one after it
    first, last = np.array(starts)[stage], ends[stage]
    tau = (at - first) / (last - first)
    tau[-1] = ALMOST
    return stage, np.minimum(tau, ALMOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEpisode:
    """An ended episode as the progress model trains on it.

    Attributes:
        frames: Features and proprio per frame, float32, shape (T+1, D).
        success: True if it ended in success by an operator's verdict; False for a failure.
        judged: False if it was cut short and nobody said that it failed: it may be a success that the model missed.
        done_frames: Frames at the end of a success that show the finished task.
        refused: True if a model had declared success and an operator refused it.
        stage_starts: First frame of each stage of the task, if an operator has marked them in this success.
        progress: True progress per frame of a success, shape (T+1,), where it is known better than by the clock.
        thumbnails: Columns [start, stop) of the thumbnail of each camera in `frames`; none where there are none.
        parts: Name, start and stop of the columns of each part of proprio in `frames`.
        ruled_out: Frames of a failure from which nothing is learned, so that they do not make a model doubt successes,
            bool, shape (T+1,): they cannot be called done whatever is learned, or look finished and nobody judged
            them; None if there are none.
        name: By which orders name it; "" where none does.
        orders: Of its frames and frames of others, by operators, models and take-overs.
    """

    frames: np.ndarray
    success: bool
    judged: bool = True
    done_frames: int = 2
    refused: bool = False
    stage_starts: tuple[int, ...] = ()
    progress: np.ndarray | None = None
    thumbnails: tuple[tuple[int, int], ...] = ()
    parts: tuple[tuple[str, int, int], ...] = ()
    ruled_out: np.ndarray | None = None
    name: str = ""
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """A batch of clips, all float32.

    Attributes:
        frames: Shape (B, K, D).
        progress: Labels in [0, 1], shape (B, K), `UNKNOWN` where not known.
        done: Labels 0 or 1, same.
        weight: Of the done labels, shape (B,).
    """

    frames: np.ndarray
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

    Where the stages of `FEWEST_STAGED` successes, or of all, are marked, each stage counts by its mean share of these
    (SARM), and the progress of the other successes is not known: the clock would say something else of the same state.
    Otherwise what an episode says of itself counts, and without that the clock.
    """
    successes = [e for e in episodes if e.success]
    staged = [e for e in successes if e.stage_starts]
    if len(staged) < min(FEWEST_STAGED, max(1, len(successes))) or len({len(e.stage_starts) for e in staged}) > 1:
        return [_own_progress(e) for e in episodes]
    shares = stage_shares(np.array([np.diff([*e.stage_starts, len(e.frames)]) for e in staged]))
    return [
        staged_progress(*stage_labels(e.stage_starts, len(e.frames)), shares)
        if e.success and e.stage_starts
        else np.full(len(e.frames), UNKNOWN)
        for e in episodes
    ]


def _own_progress(episode: ScoredEpisode) -> np.ndarray:
    if not episode.success:
        return np.full(len(episode.frames), UNKNOWN)
    return np.linspace(0.0, 1.0, len(episode.frames)) if episode.progress is None else episode.progress


class PairSource:
    """A source that draws prefixes of ordered pairs.

    Args:
        pairs: At least one.
        window: Frames of a prefix.
    """

    def __init__(self, pairs: Sequence[OrderedPair], window: int, rng: np.random.Generator) -> None:
        self._pairs, self._window, self._rng = pairs, window, rng

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample pairs: prefixes of the first frames, then of the second ones, (2 * count, window, D); μ (count,)."""
        drawn = [self._pairs[i] for i in self._rng.integers(len(self._pairs), size=count)]
        shown = [pair.first for pair in drawn] + [pair.second for pair in drawn]
        prefixes = np.stack([frames[prefix_indices(len(frames) - 1, self._window)] for frames in shown])
        return prefixes.astype(np.float32), np.array([pair.further for pair in drawn], np.float32)


class ClipSource:
    """A source that draws training clips from given episodes.

    Args:
        episodes: At least one success.
        config: Shares of the kinds of clips.
    """

    def __init__(self, episodes: Sequence[ScoredEpisode], config: ProgressConfig, rng: np.random.Generator) -> None:
        self._config, self._rng = config, rng
        labelled = list(zip(episodes, progress_labels(episodes), strict=True))
        self._successes = [pair for pair in labelled if pair[0].success]
        self._failures = [pair for pair in labelled if not pair[0].success]

    def draw(self, batch: int) -> Clips:
        """Sample a batch of clips; about one in three comes from failures where there are some."""
        rows = []
        for _ in range(batch):
            pool = self._failures if self._failures and self._rng.random() < 0.35 else self._successes
            rows.append(self._clip(*pool[self._rng.integers(len(pool))]))
        frames, progress, done, weight = zip(*rows, strict=True)
        return Clips(
            frames=np.stack(frames).astype(np.float32),
            progress=np.stack(progress).astype(np.float32),
            done=np.stack(done).astype(np.float32),
            weight=np.array(weight, dtype=np.float32),
        )

    def _clip(self, episode: ScoredEpisode, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        rng, config = self._rng, self._config
        indices = self._path(len(truth))
        progress = truth[indices]
        done = done_labels(indices, len(truth), episode.done_frames) if episode.success else np.zeros(config.window)
        if rng.random() < config.shuffle:
            indices = rng.permutation(indices)
            progress, done = np.full(config.window, UNKNOWN), np.zeros(config.window)
        if episode.ruled_out is not None:
            done[episode.ruled_out[indices]] = UNKNOWN
        return episode.frames[indices], progress, done, config.negative_weight if episode.refused else 1.0

    def _path(self, length: int) -> np.ndarray:
        """Draw the frames of a clip in the order in which they are shown, shape (window,)."""
        rng, window = self._rng, self._config.window
        last = length - 1 if rng.random() < WHOLE_EPISODE else int(rng.integers(1, length))
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
