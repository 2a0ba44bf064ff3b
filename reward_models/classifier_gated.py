"""A progress model whose verdict of success must be confirmed by the success classifier, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from reward_models.classifier.model import LabelledFrames, SuccessClassifier
from reward_models.progress.clips import UNKNOWN, ScoredEpisode, done_labels
from reward_models.progress.model import FrameScores, ProgressModel


class ClassifierGatedModel:
    """A progress model whose probability of success is 0 where the classifier does not see success."""

    def __init__(self, model: ProgressModel, classifier: SuccessClassifier) -> None:
        self.model = model
        self.classifier = classifier
        self.version = f"{model.version[:8]}{classifier.version[:8]}"

    @property
    def text(self) -> str:
        """Return the words of the task that the progress model was trained on."""
        return self.model.text

    def stored(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Return tensors and texts as a file keeps them: the progress model's, and the classifier's."""
        tensors, texts = self.model.stored()
        confirm = {f"confirm.{name}": tensor for name, tensor in self.classifier.state_dict().items()}
        return tensors | confirm, texts

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise frames (..., D) as the progress model takes them."""
        return self.model.standardised(frames)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score frames as `ProgressModel.score` does, with success gated by the classifier."""
        scores = self.model.score(frames, start)
        seen = (
            self.classifier.score(np.asarray(frames[start:, self.model.plain], np.float32)) >= self.classifier.threshold
        )
        return scores._replace(success=np.where(seen, scores.success, np.float32(0)))


def labelled(episodes: Sequence[ScoredEpisode], plain: np.ndarray) -> list[LabelledFrames]:
    """Label frames for the classifier: the last ones of successes, all others, and hard ones.

    Hard ones are the last frames of episodes whose declared success an operator refused. Frames that are ruled out, and
    those before the last ones of a success that may show the finished task too, are left out.

    Args:
        episodes: As the progress model was fitted on them.
        plain: Columns of a frame's inputs that it reads, those of the progress model.
    """
    found = []
    for episode in episodes:
        at = np.arange(len(episode.frames))
        done = done_labels(at, len(at), episode.done_frames)
        last, known = done == 1, np.ones(len(at), bool)
        if episode.success:
            known = done != UNKNOWN
        elif episode.ruled_out is not None:
            known = ~episode.ruled_out
        if known.any():
            found.append(
                LabelledFrames(
                    frames=episode.frames[known][:, plain],
                    success=(last & episode.success)[known],
                    hard=(last & episode.refused)[known],
                )
            )
    return found
