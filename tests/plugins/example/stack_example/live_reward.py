"""A live reward model: how near a frame's features and proprio are to those at the end of a success."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from reward_models.live import LiveModel
from reward_models.live_builders import Fitted, LiveBuilders, OnStep
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import LiveRewardConfig
from reward_models.progress.fit import FitReport
from reward_models.progress.model import FrameScores
from robot_stack.types.errors import RewardError


class NearestConfig(LiveRewardConfig):
    """Settings of the nearest end, and what the learner reads of any live reward model."""

    part = "example_nearest"

    reach: float = Field(0.2, gt=0, le=1, description="share of the way at which the task looks done")


class NearestEnd:
    """The distance to the mean end, against that of the mean start; implements `TaskModel`."""

    def __init__(self, start: np.ndarray, end: np.ndarray, config: NearestConfig, text: str) -> None:
        self._start, self._end, self._config, self.text = start, end, config, text
        self._way = max(float(np.linalg.norm(end - start)), 1e-6)
        content = start.tobytes() + end.tobytes() + text.encode()
        self.version = hashlib.sha256(content).hexdigest()[:16]

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Return frames (..., D) in shares of the whole way."""
        return ((frames - self._start) / self._way).astype(np.float32)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames (T, D) from `start` on."""
        left = np.linalg.norm(frames[start:] - self._end, axis=1) / self._way
        progress = np.clip(1 - left, 0, 1).astype(np.float32)
        success = (left < self._config.reach).astype(np.float32)
        return FrameScores(progress, success, np.zeros_like(progress))

    def stored(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return both ends of the way, and the words of the task."""
        ends = {"start": torch.from_numpy(self._start), "end": torch.from_numpy(self._end)}
        return ends, {"version": self.version, "text": self.text}


def fit(episodes: Sequence[ScoredEpisode], config: NearestConfig, *, text: str, seed: int, on_step: OnStep) -> Fitted:
    """Take the mean first and last frames of the successes."""
    successes = [episode.frames for episode in episodes if episode.success]
    if not successes:
        raise RewardError("successes are 0, must be at least 1; show the task first")
    start, end = (np.stack([frames[at] for frames in successes]).mean(axis=0) for at in (0, -1))
    model = NearestEnd(start, end, config, text)
    unknown = float("nan")
    report = FitReport(
        version=model.version,
        voc_heldout=unknown,
        voc_clock=unknown,
        false_done=unknown,
        calibration_error=unknown,
        loss=0.0,
    )
    return model, report, None


def restore(tensors: Mapping[str, Tensor], texts: Mapping[str, str], config: NearestConfig) -> NearestEnd:
    """Build the model again from what `stored` gave."""
    return NearestEnd(tensors["start"].numpy(), tensors["end"].numpy(), config, texts["text"])


LIVE_REWARD = LiveModel(config=NearestConfig, builders=lambda: LiveBuilders(fit=fit, restore=restore))
