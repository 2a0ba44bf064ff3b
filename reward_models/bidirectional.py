"""Two progress models as one: of a task and of its way back, each asked about the episodes that go its way."""

from __future__ import annotations

import hashlib

import numpy as np

from reward_models.classifier_gated import ClassifierGatedModel
from reward_models.progress.model import FrameScores, ProgressModel

OneWay = ProgressModel | ClassifierGatedModel


class BidirectionalModel:
    """A pair of progress models; one entry of a frame's inputs says which way an episode goes.

    Args:
        forward: Of the task.
        backward: Of the way back, on the same inputs.
        column: Entry of a frame's inputs that is negative on the way back.

    Attributes:
        version: Of both.
    """

    def __init__(self, forward: OneWay, backward: OneWay, column: int) -> None:
        self.forward, self.backward, self.column = forward, backward, column
        self.version = hashlib.sha256(f"{forward.version} {backward.version}".encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """Return the words of the task that the forward model was trained on."""
        return self.forward.text

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise the frames (T, D) of one episode as its model takes them."""
        return self.of(frames).standardised(frames)

    def score(self, frames: np.ndarray, start: int = 0, *, text: str | None = None) -> FrameScores:
        """Score the frames of one episode with its model, as `ProgressModel.score` does."""
        return self.of(frames).score(frames, start, text=text)

    def of(self, frames: np.ndarray) -> OneWay:
        """Return the model that is asked about these frames of one episode."""
        return self.backward if len(frames) and frames[0, self.column] < 0 else self.forward
