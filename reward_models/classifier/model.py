"""A success classifier over frozen features: one frame, no history, no words.

After HIL-SERL (Luo et al., 2024, arXiv:2410.21845): binary cross-entropy over batches of which half shows success, a
threshold on the probability, false positives added as negatives. Deviations: the run's own trunk instead of an
ImageNet ResNet-10, a split by episodes instead of none, and the threshold is found for a wanted precision instead of
being guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reward_models.classifier.config import ClassifierConfig
from robot_stack.types.errors import RewardError


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The precision and recall of a threshold.

    Attributes:
        threshold: Probability from which on a frame counts as success.
        precision: Share of the frames called success that are; NaN if none is called.
    """

    threshold: float
    precision: float
    recall: float
    reached: bool


def operating_point(probabilities: np.ndarray, labels: np.ndarray, threshold: float, wanted: float) -> OperatingPoint:
    """Return the precision and recall of `probabilities >= threshold`, shapes (N,).

    >>> point = operating_point(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]), 0.5, 0.9)
    >>> point.precision, point.recall, point.reached
    (0.5, 0.5, False)
    """
    called = probabilities >= threshold
    true = int((called & (labels == 1)).sum())
    precision = true / int(called.sum()) if called.any() else float("nan")
    recall = true / int((labels == 1).sum()) if (labels == 1).any() else float("nan")
    return OperatingPoint(threshold=threshold, precision=precision, recall=recall, reached=bool(precision >= wanted))


def threshold_for(probabilities: np.ndarray, labels: np.ndarray, wanted: float) -> OperatingPoint:
    """Find the lowest threshold from which on precision is never below `wanted`: highest recall, no luck in it.

    Half-way between the last frame that is called and the next below it, so that it does not sit on a frame, whose last
    bit would decide. Where none reaches it, only the highest probability seen is called, and `reached` is False.

    >>> threshold_for(np.array([0.9, 0.75, 0.5, 0.2]), np.array([1, 1, 0, 0]), 0.95).threshold
    0.625
    >>> point = threshold_for(np.array([0.5, 0.25]), np.array([0, 1]), 0.95)
    >>> point.threshold, point.reached
    (0.375, False)
    """
    order = np.argsort(-probabilities, kind="stable")
    p, y = probabilities[order], labels[order]
    precision = np.cumsum(y) / np.arange(1, len(y) + 1)
    last_of_tie = np.append(p[1:] != p[:-1], True)
    good = (precision >= wanted) | ~last_of_tie
    count = len(good) if good.all() else int(np.argmin(good))  # frames before the first threshold that is too low
    while count and not last_of_tie[count - 1]:
        count -= 1
    if not len(p):
        return operating_point(probabilities, labels, 1.0, wanted)
    if count == 0:
        count = int(np.argmax(last_of_tie)) + 1
    below = p[count] if count < len(p) else 0.0
    return operating_point(probabilities, labels, float((p[count - 1] + below) / 2), wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFrames:
    """The frames of one episode with what they show.

    Attributes:
        frames: Features and proprio, float32, shape (T, D).
        success: Whether a frame shows the finished task, bool, shape (T,).
        hard: Frames that a classifier called success on the robot, and an operator refused; bool, shape (T,).
    """

    frames: np.ndarray
    success: np.ndarray
    hard: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierReport:
    """The figures of a fitted classifier on the episodes that were kept back.

    Attributes:
        point: The threshold that was found, and what that does.
        positives: Frames that show success, of those kept back.
        loss: Last training loss.
    """

    version: str
    point: OperatingPoint
    positives: int
    negatives: int
    loss: float


class SuccessClassifier:
    """A network that gives the probability that a frame shows the finished task.

    Attributes:
        threshold: From which on it counts as success, found on the episodes kept back; 0 where no threshold has the
            wanted precision there: then it refuses nothing.
    """

    def __init__(self, inputs: int, config: ClassifierConfig) -> None:
        self.config = config
        self._mean = torch.zeros(inputs)
        self._scale = torch.ones(inputs)
        self._network = nn.Sequential(
            nn.Linear(inputs, config.width),
            nn.Dropout(config.dropout),
            nn.LayerNorm(config.width),
            nn.ReLU(),
            nn.Linear(config.width, 1),
        )
        self.threshold = 0.5
        self.version = ""

    @torch.no_grad()
    def score(self, frames: np.ndarray) -> np.ndarray:
        """Return the probability of success of frames (N, D), float32, shape (N,)."""
        return torch.sigmoid(self._logits(torch.from_numpy(frames))).numpy()

    def _logits(self, frames: Tensor, noise: float = 0.0) -> Tensor:
        shown = ((frames - self._mean) * self._scale).clamp(-8, 8)
        logits: Tensor = self._network(shown + noise * torch.randn_like(shown) if noise else shown)
        return logits[:, 0]

    @classmethod
    def fit(
        cls,
        episodes: Sequence[LabelledFrames],
        config: ClassifierConfig,
        *,
        seed: int,
        on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
    ) -> tuple[SuccessClassifier, ClassifierReport]:
        """Train a classifier, and find its threshold on episodes that were not trained on.

        Args:
            episodes: At least two with frames of success and two with others.
            on_step: Told (step, steps, loss).

        Raises:
            RewardError: If there are not enough of one kind; the message says what to record.
        """
        rng = np.random.default_rng(seed)
        training, kept = _split(episodes, config.validation, rng)
        torch.manual_seed(seed)
        model = cls(training[0].frames.shape[1], config)
        frames = torch.from_numpy(np.concatenate([e.frames for e in training]))
        success = np.concatenate([e.success for e in training])
        weight = np.where(np.concatenate([e.hard for e in training]), config.hard_weight, 1.0)
        model._mean, model._scale = frames.mean(0), 1 / frames.std(0, correction=0).clamp_min(1e-3)
        loss = model._train(frames, success, weight, rng, on_step)
        said = model.score(np.concatenate([e.frames for e in kept]))
        truth = np.concatenate([e.success for e in kept])
        point = threshold_for(said, truth, config.precision)
        model.threshold = point.threshold if point.reached else 0.0
        model._seal()
        return model, ClassifierReport(
            version=model.version, point=point, positives=int(truth.sum()), negatives=int((~truth).sum()), loss=loss
        )

    def _train(
        self,
        frames: Tensor,
        success: np.ndarray,
        weight: np.ndarray,
        rng: np.random.Generator,
        on_step: Callable[[int, int, float], None],
    ) -> float:
        config = self.config
        yes, no = np.flatnonzero(success), np.flatnonzero(~success)
        chance = weight[no] / weight[no].sum()
        half = config.batch // 2
        labels = torch.cat([torch.ones(half), torch.zeros(half)])
        optimiser = torch.optim.AdamW(self._network.parameters(), config.learning_rate, weight_decay=1e-2)
        value = float("nan")
        self._network.train()
        for step in range(config.steps):
            rows = np.concatenate([rng.choice(yes, half), rng.choice(no, half, p=chance)])
            loss = functional.binary_cross_entropy_with_logits(
                self._logits(frames[torch.from_numpy(rows)], config.noise), labels
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            value = float(loss.detach())
            on_step(step + 1, config.steps, value)
        self._network.eval()
        return value

    def _seal(self) -> None:
        digest = hashlib.sha256(f"{self.threshold}".encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        self.version = digest.hexdigest()[:16]

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights, normalisation and threshold, tensors only."""
        return {
            **{f"network.{name}": tensor for name, tensor in self._network.state_dict().items()},
            "mean": self._mean,
            "scale": self._scale,
            "threshold": torch.tensor(self.threshold, dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            RewardError: If it is of another size.
        """
        network = {name.removeprefix("network."): t for name, t in state.items() if name.startswith("network.")}
        try:
            self._network.load_state_dict(network)
        except RuntimeError as error:
            why = " ".join(str(error).split())[:200]
            raise RewardError(
                f"classifier is of other settings, must be of this run's ({why}); train it anew"
            ) from error
        self._network.eval()
        self._mean, self._scale = state["mean"], state["scale"]
        self.threshold = float(state["threshold"])
        self._seal()


def _split(
    episodes: Sequence[LabelledFrames], share: float, rng: np.random.Generator
) -> tuple[list[LabelledFrames], list[LabelledFrames]]:
    """Split episodes into training and validation; both have frames of success and others."""
    training: list[LabelledFrames] = []
    kept: list[LabelledFrames] = []
    for kind, wanted in ((True, "that show success"), (False, "without success")):
        pool = [e for e in episodes if bool(e.success.any()) is kind]
        if kind and len(pool) < 2:
            raise RewardError(
                f"episodes {wanted} are {len(pool)}, must be at least 2; record more, and press the success key when "
                "the task is done"
            )
        count = max(1, round(share * len(pool))) if len(pool) > 1 else 0
        order = rng.permutation(len(pool))
        kept += [pool[i] for i in order[:count]]
        training += [pool[i] for i in order[count:]]
    for part, name in ((training, "to train on"), (kept, "to validate on")):
        if all(e.success.all() for e in part):
            raise RewardError(f"frames without success {name} are 0, must be some; record the way to it too")
    return training, kept
