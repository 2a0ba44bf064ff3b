"""The embedded progress model: fit on demonstrations and verdicts, score frames, say when the task looks done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reward_models.metrics import clock_scores, mean_voc
from reward_models.progress.clips import ScoredEpisode, draw_clips, prefix_indices
from reward_models.progress.config import ProgressConfig
from reward_models.progress.network import ProgressNetwork
from robot_stack.types.errors import RewardError


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """What a fit achieved on the successes it did not train on.

    Attributes:
        version: Of the fitted model.
        voc_heldout: Mean VOC on held-out successes, or on the training ones if none were held out.
        voc_clock: The same for the clock, which reads no image.
        false_done: Frames of held-out successes, well before the end, that pass the threshold, as a share.
        loss: Last training loss.
    """

    version: str
    voc_heldout: float
    voc_clock: float
    false_done: float
    loss: float


class ProgressModel:
    """Φ and success probability from frozen features and proprio. `version` changes with the weights."""

    def __init__(self, inputs: int, config: ProgressConfig) -> None:
        self.config = config
        self.inputs = inputs
        self._network = ProgressNetwork(inputs, width=config.width, layers=config.layers)
        self._mean = np.zeros(inputs, np.float32)
        self._scale = np.ones(inputs, np.float32)
        self.version = ""

    @classmethod
    def fit(
        cls,
        episodes: Sequence[ScoredEpisode],
        config: ProgressConfig,
        *,
        seed: int,
        on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
    ) -> tuple[ProgressModel, FitReport]:
        """Train from scratch.

        Args:
            episodes: At least one success; failures and refused successes sharpen the done head.
            config: Budget and augmentation.
            seed: Seeds weights and clips.
            on_step: Told (step, steps, loss).

        Raises:
            RewardError: If there is no success to learn from.
        """
        successes = [e for e in episodes if e.success]
        if not successes:
            raise RewardError("successful episodes are 0, must be at least 1; record a demonstration first")
        held = min(config.held_out, len(successes) - 1)
        held_out = successes[:held]
        training = [e for e in episodes if not any(e is kept for kept in held_out)]
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        model = cls(episodes[0].frames.shape[1], config)
        stacked = np.concatenate([e.frames for e in training])
        model._mean, model._scale = stacked.mean(axis=0), 1 / np.maximum(stacked.std(axis=0), 1e-3)
        loss = model._train(training, rng, on_step)
        model._seal()
        return model, model._report(held_out or successes, loss)

    def _train(
        self, episodes: Sequence[ScoredEpisode], rng: np.random.Generator, on_step: Callable[[int, int, float], None]
    ) -> float:
        config, network = self.config, self._network
        optimiser = torch.optim.AdamW(network.parameters(), config.learning_rate, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
        loss = torch.zeros(())
        network.train()
        for step in range(config.steps):
            clips = draw_clips(episodes, config, rng, config.batch)
            frames = torch.from_numpy(self._standardise(clips.frames))
            frames = frames + 0.1 * torch.randn_like(frames)
            progress, done = network(frames)
            loss = _loss(
                progress,
                done,
                torch.from_numpy(clips.progress),
                torch.from_numpy(clips.done),
                torch.from_numpy(clips.weight),
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            on_step(step + 1, config.steps, float(loss.detach()))
        network.eval()
        return float(loss.detach())

    def _report(self, held_out: Sequence[ScoredEpisode], loss: float) -> FitReport:
        scored = [self.score(e.frames) for e in held_out]
        early = np.concatenate(
            [p[: max(0, len(p) - 2 * e.done_frames)] for e, (_, p) in zip(held_out, scored, strict=True)]
        )
        return FitReport(
            version=self.version,
            voc_heldout=mean_voc([progress for progress, _ in scored]),
            voc_clock=mean_voc([clock_scores(len(progress)) for progress, _ in scored]),
            false_done=float((early >= self.config.threshold).mean()) if len(early) else 0.0,
            loss=loss,
        )

    def _standardise(self, frames: np.ndarray) -> np.ndarray:
        return np.clip((frames - self._mean) * self._scale, -8, 8).astype(np.float32)

    @torch.no_grad()
    def score(self, frames: np.ndarray, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Score the frames from `start` on, each from its own past only.

        Args:
            frames: Features and proprio of an episode so far, float32, shape (T, D).
            start: First frame to score.

        Returns:
            Φ and success probability, each float32 in [0, 1], shape (T - start,).
        """
        lasts = range(start, len(frames))
        if not lasts:
            return np.zeros(0, np.float32), np.zeros(0, np.float32)
        window = self.config.window
        clips = np.stack([self._standardise(frames[prefix_indices(last, window)]) for last in lasts])
        progress, done = self._network(torch.from_numpy(clips))
        return torch.sigmoid(progress[:, -1]).numpy(), torch.sigmoid(done[:, -1]).numpy()

    def _seal(self) -> None:
        digest = hashlib.sha256()
        for name, tensor in sorted(self._network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        self.version = digest.hexdigest()[:16]

    def state_dict(self) -> dict[str, Any]:
        """Weights and normalisation, tensors only, plus the version."""
        return {
            "network": self._network.state_dict(),
            "mean": torch.from_numpy(self._mean),
            "scale": torch.from_numpy(self._scale),
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`.

        Raises:
            RewardError: If the weights are not those of the version they claim.
        """
        self._network.load_state_dict(state["network"])
        self._network.eval()
        self._mean, self._scale = state["mean"].numpy(), state["scale"].numpy()
        self._seal()
        if self.version != state["version"]:
            raise RewardError(f"progress model is {self.version}, must be {state['version']}; the file is damaged")


def _loss(
    progress: torch.Tensor,
    done: torch.Tensor,
    progress_label: torch.Tensor,
    done_label: torch.Tensor,
    weight: torch.Tensor,
) -> torch.Tensor:
    """MSE of progress plus BCE of done over the known labels; the first frame carries no evidence and is skipped."""
    known = (progress_label >= 0).float()
    known[:, 0] = 0
    squared = (torch.sigmoid(progress) - progress_label).square()
    progress_loss = (squared * known).sum() / known.sum().clamp_min(1)
    sure = (done_label >= 0).float() * weight[:, None]
    sure[:, 0] = 0
    entropy = functional.binary_cross_entropy_with_logits(done, done_label.clamp_min(0), reduction="none")
    return progress_loss + 0.5 * (entropy * sure).sum() / sure.sum().clamp_min(1)
