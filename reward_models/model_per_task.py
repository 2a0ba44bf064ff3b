"""Progress models of several tasks as one, each asked about the episodes of its own task."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from reward_models.progress.model import FrameScores


class TaskModel(Protocol):
    """A live reward model of one task, fitted on features and proprio; D inputs a frame."""

    @property
    def version(self) -> str:
        """Return the identity of weights and settings: another version may score otherwise."""
        ...

    @property
    def text(self) -> str:
        """Return the words of the task that it was fitted on."""
        ...

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Return frames (..., D) on a scale on which distances can be compared, float32, same shape."""
        ...

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames (T, D) of an episode so far from `start` on, each from its own past only."""
        ...

    def stored(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return tensors and texts as a file keeps them, by name; `LiveModel.restore` takes them."""
        ...


def nearest(codes: Iterable[tuple[float, ...]], told: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    """Return the code of a task that comes nearest to the one that was read."""
    return min(codes, key=lambda code: float(np.linalg.norm(np.subtract(code, told))))


class ModelPerTask:
    """Progress models of tasks that take turns; some entries of a frame's inputs say which task an episode is of.

    Args:
        models: By task id, in the order of the turns, all on the same inputs.
        told: By task id, the values of those entries in its episodes.
        column: The first of them, counted from the last entry of a frame, which is -1.
    """

    def __init__(self, models: Mapping[str, TaskModel], told: Mapping[str, Sequence[float]], column: int) -> None:
        self.models, self.column = dict(models), column
        self.told = {task_id: tuple(code) for task_id, code in told.items()}
        self._ids = {code: task_id for task_id, code in self.told.items()}
        versions = " ".join(model.version for model in models.values())
        self.version = hashlib.sha256(versions.encode()).hexdigest()[:16]

    @property
    def first(self) -> TaskModel:
        """Return the model of the first task."""
        return next(iter(self.models.values()))

    @property
    def text(self) -> str:
        """Return the words of the first task, on which its model was trained."""
        return self.first.text

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise the frames (T, D) of one episode as its model takes them."""
        return self.of(frames).standardised(frames)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames of one episode with its model, as `ProgressModel.score` does."""
        return self.of(frames).score(frames, start)

    def of(self, frames: np.ndarray) -> TaskModel:
        """Return the model that is asked about these frames of one episode."""
        if not len(frames):
            return self.first
        size = len(next(iter(self._ids)))
        told = frames[0, np.arange(self.column, self.column + size)]
        return self.models[self._ids[nearest(self._ids, told)]]
