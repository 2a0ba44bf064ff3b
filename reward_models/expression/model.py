"""Progress and success of frames by two written formulas over proprio and, if they read them, the embedded scores.

Eureka (Ma et al., 2023, arXiv:2310.12931) and Text2Reward (Xie et al., 2023, arXiv:2309.11489) let a language model
write the code of a reward. Here it writes a potential: Φ is shaped by the run's rule as any other model's, so that a
bad formula of progress costs time and not the task; and it is an expression, not code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from reward_models.expression.config import SCORES, ExpressionConfig
from reward_models.model_per_task import TaskModel
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.fit import FitReport, report_on, standard
from reward_models.progress.model import FrameScores
from robot_stack.types.errors import RewardError

SEEN = "seen."
"""Prefix of what a file keeps of the embedded model."""


class ExpressionModel:
    """A live reward model that evaluates formulas; see `reward_models.model_per_task.TaskModel`.

    Args:
        config: With the formulas.
        text: The task.
        columns: [start, stop) of each part of proprio in a frame's inputs, by name.
        mean: Of a frame's inputs, shape (D,).
        scale: By which they are multiplied once the mean is taken off, shape (D,).
        seen: The embedded model, where a formula reads its scores.
    """

    def __init__(
        self,
        config: ExpressionConfig,
        *,
        text: str,
        columns: Mapping[str, tuple[int, int]],
        mean: np.ndarray,
        scale: np.ndarray,
        seen: TaskModel | None = None,
    ) -> None:
        self.config, self.text, self.columns, self.seen = config, text, dict(columns), seen
        self._mean, self._scale = np.asarray(mean, np.float32), np.asarray(scale, np.float32)
        about = [text, config.progress, config.success, sorted(self.columns.items()), seen.version if seen else ""]
        self.version = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]  # by these alone it scores

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise frames (..., D), float32, same shape."""
        return np.clip((frames - self._mean) * self._scale, -8, 8).astype(np.float32)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames (T, D) of an episode so far from `start` on, each from its own past only.

        A frame of which a formula says nothing, as after a division by 0, has Φ 0 and is not done: a frame without Φ
        would be left out of the shaping, and what is lost on the way into such frames would come back for nothing.
        """
        values: dict[str, np.ndarray] = {
            name: np.asarray(frames[:, first:stop], np.float64) for name, (first, stop) in self.columns.items()
        }
        spread, lacking = np.zeros(len(frames)), None
        if self.seen is not None:
            scores = self.seen.score(frames, start)
            before = np.full(start, np.nan)  # of which no formula reads
            for name, each in zip(SCORES, scores[:2], strict=True):
                values[name] = np.concatenate([before, each])[:, None]
            spread[start:], lacking = scores.spread, scores.lacking
        formulas = self.config.formulas
        found = {name: formula(values)[start:] for name, formula in formulas.items()} if len(frames) else {}
        progress, success = (found.get(name, np.zeros(0)) for name in ("progress", "success"))
        known, done = (np.clip(np.nan_to_num(each), 0.0, 1.0) for each in (progress, success))
        return FrameScores(
            known.astype(np.float32), done.astype(np.float32), spread[start:].astype(np.float32), lacking
        )

    def stored(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return tensors and texts as a file keeps them, by name."""
        tensors = {"mean": torch.from_numpy(self._mean), "scale": torch.from_numpy(self._scale)}
        texts = {"version": self.version, "text": self.text, "columns": json.dumps(self.columns)}
        if self.seen is not None:
            own, said = self.seen.stored()
            tensors |= {SEEN + name: tensor for name, tensor in own.items()}
            texts |= {SEEN + name: value for name, value in said.items()}
        return tensors, texts


def judge(
    model: ExpressionModel, episodes: Sequence[ScoredEpisode], on_step: Callable[[int, int, float], None]
) -> FitReport:
    """Measure what the formulas say of recorded successes: their order, and how often they call an early frame done."""
    successes = [episode for episode in episodes if episode.success and len(episode.frames) > 2]
    if not successes:
        raise RewardError("successful episodes are 0, must be at least 1; record a demonstration")
    scored = []
    for number, episode in enumerate(successes):
        scored.append(model.score(episode.frames))
        on_step(number + 1, len(successes), 0.0)
    return report_on(model.version, successes, scored, threshold=model.config.threshold)


def written(
    episodes: Sequence[ScoredEpisode], config: ExpressionConfig, *, text: str, seen: TaskModel | None
) -> ExpressionModel:
    """Build a model of formulas for the frames of these episodes.

    Raises:
        RewardError: If the episodes do not say which column is which part of proprio.
    """
    mean, scale = standard(np.concatenate([episode.frames for episode in episodes]), episodes[0].thumbnails)
    columns = {name: (start, stop) for name, start, stop in episodes[0].parts}
    said = [f"{name}: {text}" for name, text in config.mistakes({n: b - a for n, (a, b) in columns.items()})]
    if said:
        raise RewardError("; ".join(said))
    return ExpressionModel(config, text=text, columns=columns, mean=mean, scale=scale, seen=seen)


def restore(
    tensors: Mapping[str, Tensor], texts: Mapping[str, str], config: ExpressionConfig, *, seen: TaskModel | None
) -> ExpressionModel:
    """Build a model from what `ExpressionModel.stored` gave, and the embedded model that its formulas read.

    Raises:
        RewardError: If something lacks, or it is not of the version that it claims.
    """
    lacking = [name for name in ("mean", "scale") if name not in tensors]
    lacking += [name for name in ("text", "columns") if name not in texts]
    if lacking:
        raise RewardError(f"stored reward model lacks {lacking}, must be written by this program; fit it again")
    columns = {name: (int(start), int(stop)) for name, (start, stop) in json.loads(texts["columns"]).items()}
    mean, scale = tensors["mean"].numpy(), tensors["scale"].numpy()
    model = ExpressionModel(config, text=texts["text"], columns=columns, mean=mean, scale=scale, seen=seen)
    if model.version != texts.get("version"):
        raise RewardError(
            f"reward model is {model.version}, must be {texts.get('version')}; its file is damaged or of other settings"
        )
    return model
