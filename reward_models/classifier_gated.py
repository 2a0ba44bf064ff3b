"""A progress model whose word on success needs a second one: the success classifier's, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_models.classifier.model import LabelledFrames, SuccessClassifier
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.model import FrameScores, ProgressModel


class ClassifierGatedModel:
    """Scores as the progress model does, but success is 0 where the classifier does not see it.

    Attributes:
        model: The progress model.
        classifier: Looks at each frame alone.
        version: Of both.
    """

    def __init__(self, model: ProgressModel, classifier: SuccessClassifier) -> None:
        self.model = model
        self.classifier = classifier
        self.version = f"{model.version[:8]}{classifier.version[:8]}"

    @property
    def text(self) -> str:
        """The task that it was trained on."""
        return self.model.text

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """As the progress model takes frames (..., D)."""
        return self.model.standardised(frames)

    def score(self, frames: np.ndarray, start: int = 0, *, text: str | None = None) -> FrameScores:
        """See `ProgressModel.score`."""
        scores = self.model.score(frames, start, text=text)
        seen = self.classifier.score(np.asarray(frames[start:], np.float32)) >= self.classifier.threshold
        return scores._replace(success=np.where(seen, scores.success, np.float32(0)))


def labelled(episodes: Sequence[ScoredEpisode]) -> list[LabelledFrames]:
    """What the classifier trains on: the last frames of successes, all others, and hard ones where it was refused."""
    found = []
    for episode in episodes:
        last = np.arange(len(episode.frames)) >= len(episode.frames) - episode.done_frames
        found.append(
            LabelledFrames(
                frames=episode.frames,
                success=last & episode.success,
                hard=last & episode.refused,
            )
        )
    return found
