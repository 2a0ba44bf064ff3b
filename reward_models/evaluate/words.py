"""Section D, second part: the same videos under other words.

A model that does not read scores them all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reward_models.evaluate.judge import phi_at_end
from reward_models.evaluate.rank_metrics import diagonal_margin
from reward_models.interface import LabelledEpisode, RewardModel
from robot_stack.types.errors import RewardError

VIDEOS = 4
"""Of each text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The mean final Φ of successful videos under each text.

    Attributes:
        texts: Those that a video shows first, then the others.
        matrix: Row i, videos of text i; column j, shown under text j; shape (rows, texts).
        margin: Mean over rows of the own text's less the best other's; NaN with a single text.
    """

    texts: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    margin: float


def words(model: RewardModel, episodes: Sequence[LabelledEpisode], refused: dict[str, str]) -> Words:
    """Score some successes under every text that occurs; nothing if the model will not, and `refused` says why."""
    try:
        return _words(model, episodes)
    except RewardError as error:
        refused["other words"] = str(error)
        return Words(texts=(), matrix=(), margin=float("nan"))


def _words(model: RewardModel, episodes: Sequence[LabelledEpisode]) -> Words:
    videos: dict[str, list[LabelledEpisode]] = {}
    for episode in episodes:
        if episode.success:
            videos.setdefault(episode.instruction.text, []).append(episode)
    others = sorted({episode.instruction.text for episode in episodes} - set(videos))
    texts = (*videos, *others)
    rows = []
    for shown in videos.values():
        chosen = shown[:VIDEOS]
        clips = [(replace(e.instruction, text=text), e.frames) for text in texts for e in chosen]
        phi = phi_at_end(model, clips).reshape(len(texts), len(chosen))
        rows.append([float(np.nanmean(row)) if np.isfinite(row).any() else float("nan") for row in phi])
    matrix = np.array(rows).reshape(len(videos), len(texts))
    return Words(texts=texts, matrix=tuple(map(tuple, matrix.tolist())), margin=diagonal_margin(matrix))
