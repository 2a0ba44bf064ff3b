"""The embedded progress model: scores frames and pairs of frames, and says when the task looks done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn

from reward_models.alarms import nearest_distance
from reward_models.progress.clips import prefix_indices
from reward_models.progress.config import ProgressConfig
from reward_models.progress.finished import FinishedLook
from reward_models.progress.network import ProgressNetwork
from reward_models.progress.separation import Columns
from reward_models.progress.text import text_features
from robot_stack.types.errors import RewardError

ARRAYS = ("mean", "scale", "calibration", "done_known", "done_reach", "thumbnails", "look_columns", "look_reach")
"""What a model consists of beside its members and its text."""


class FrameScores(NamedTuple):
    """The scores of T frames, each float32, shape (T,).

    Attributes:
        progress: Φ in [0, 1]: mean of the members less their standard deviation.
        success: Probability that the task is done, in [0, 1]: of the member that is least sure.
        spread: Standard deviation of the members' Φ.
    """

    progress: np.ndarray
    success: np.ndarray
    spread: np.ndarray


class ProgressModel:
    """An ensemble over frozen features, proprio and the words of the task. `version` changes with any of it.

    Attributes:
        text: The task that it was trained on.
        members: The networks, as one module.
        calibration: Scale and offset of the done logit.
        done_known: Standardised inputs of frames that show the finished task, float32, shape (N, D).
        done_reach: Distance from the nearest of them, thumbnails left out, beyond which nothing is called done, however
            sure the members are.
        look: What the thumbnails of a finished task show; what lacks it is not called done either.

    Args:
        inputs: D.
        config: Its size.
        text: The task.
        thumbnails: Columns [start, stop) of each thumbnail in a frame's inputs, side by side.
    """

    def __init__(
        self, inputs: int, config: ProgressConfig, *, text: str, thumbnails: Sequence[Columns] = ()
    ) -> None:
        self.config = config
        self.inputs = inputs
        self.text = text
        self.thumbnails = tuple(thumbnails)
        shown = (thumbnails[0][0], thumbnails[-1][1]) if thumbnails else (0, 0)
        self.plain = np.r_[: shown[0], shown[1] : inputs]
        self.members = nn.ModuleList(
            ProgressNetwork(inputs, width=config.width, layers=config.layers, thumbnails=shown)
            for _ in range(config.members)
        )
        self.look = FinishedLook.of([], ())
        self.calibration = (1.0, 0.0)
        self.done_known = np.zeros((0, inputs), np.float32)
        self.done_reach = float("inf")
        self.mean = np.zeros(inputs, np.float32)
        self.scale = np.ones(inputs, np.float32)
        self.version = ""

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise frames (..., D) as the networks take them, float32."""
        return np.clip((frames - self.mean) * self.scale, -8, 8).astype(np.float32)

    def score(self, frames: np.ndarray, start: int = 0, *, text: str | None = None) -> FrameScores:
        """Score the frames from `start` on, each from its own past only.

        Args:
            frames: Features and proprio of an episode so far, float32, shape (T, D).
            start: First frame to score.
            text: What the robot was told; the task that the model was trained on unless said otherwise.

        Returns:
            Scores of T - start frames.
        """
        window = self.config.window
        prefixes = [frames[prefix_indices(last, window)] for last in range(start, len(frames))]
        return self.score_prefixes(np.array(prefixes).reshape(len(prefixes), window, self.inputs), text=text)

    def score_prefixes(self, prefixes: np.ndarray, *, text: str | None = None) -> FrameScores:
        """Score the last frame of each of N prefixes, float32, shape (N, window, D), see `prefix_indices`."""
        if not len(prefixes):
            return FrameScores(*(np.zeros(0, np.float32) for _ in FrameScores._fields))
        progress, done = self.logits(prefixes, text=text)
        phi = torch.sigmoid(progress)
        spread = phi.std(dim=0, correction=0)
        scale, offset = self.calibration
        success = torch.sigmoid(scale * done.amin(dim=0) + offset).numpy()
        success = np.where(self._familiar(self.standardised(prefixes[:, -1]), success > 0.01), success, np.float32(0))
        return FrameScores((phi.mean(dim=0) - spread).clamp_min(0).numpy(), success, spread.numpy())

    def _familiar(self, frames: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Return whether standardised frames (N, D) are near those that show the finished task, bool, shape (N,).

        Only the frames that are asked about are compared; the others are not.
        """
        near = np.zeros(len(frames), bool)
        if np.isfinite(self.done_reach) and asked.any():
            away = nearest_distance(frames[asked][:, self.plain], self.done_known[:, self.plain])
            near[asked] = (away <= self.done_reach) & self.look.fits(frames[asked], self.done_known)
            return near
        return ~near

    @torch.no_grad()
    def logits(self, prefixes: np.ndarray, *, text: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits of progress and of done of each member, not calibrated, each shape (M, N)."""
        shown, said = torch.from_numpy(self.standardised(prefixes)), self._said(text, len(prefixes))
        answers = [member.judge(*member.embed(shown, said), member.whole(shown)) for member in self.networks]
        return (
            torch.stack([progress[:, -1] for progress, _ in answers]),
            torch.stack([done[:, -1] for _, done in answers]),
        )

    @torch.no_grad()
    def compare(self, before: np.ndarray, after: np.ndarray, *, text: str | None = None) -> np.ndarray:
        """Return the hops from frames to frames (N, D), float32 in [-1, 1], shape (N,): the members' mean."""
        shown = torch.from_numpy(np.stack([self.standardised(before), self.standardised(after)], axis=1))
        said = self._said(text, len(shown))
        hops = []
        for member in self.networks:
            seen, words = member.embed(shown, said)
            hops.append(member.compare(seen[:, 0], seen[:, 1], words))
        return torch.stack(hops).mean(dim=0).numpy()

    @property
    def networks(self) -> list[ProgressNetwork]:
        """Return the members, by their type."""
        return [cast(ProgressNetwork, member) for member in self.members]

    def _said(self, text: str | None, count: int) -> torch.Tensor:
        words = text_features(self.text if text is None else text)
        return torch.from_numpy(words).expand(count, -1)

    def seal(self) -> None:
        """Set the version from what the model is now."""
        digest = hashlib.sha256(self.text.encode())
        tensors = self.members.state_dict() | self._arrays()
        for name, tensor in sorted(tensors.items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        self.version = digest.hexdigest()[:16]

    def _arrays(self) -> dict[str, torch.Tensor]:
        """Return all tensors but the members', by name, see `ARRAYS`."""
        return {
            "mean": torch.from_numpy(self.mean),
            "scale": torch.from_numpy(self.scale),
            "calibration": torch.tensor(self.calibration, dtype=torch.float64),
            "done_known": torch.from_numpy(self.done_known),
            "done_reach": torch.tensor(self.done_reach, dtype=torch.float64),
            "thumbnails": torch.tensor(self.thumbnails, dtype=torch.int64).reshape(-1, 2),
            "look_columns": torch.from_numpy(self.look.columns),
            "look_reach": torch.from_numpy(self.look.reach),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return tensors by name, and the text and version as strings."""
        return {"members": self.members.state_dict(), **self._arrays(), "text": self.text, "version": self.version}

    def stored(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Return tensors and texts as a file keeps them, by name."""
        members = {f"members.{name}": tensor for name, tensor in self.members.state_dict().items()}
        return members | self._arrays(), {"version": self.version, "text": self.text}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            RewardError: If it is of another size, or not of the version that it claims.
        """
        try:
            self.members.load_state_dict(state["members"])
        except RuntimeError as error:
            why = " ".join(str(error).split())[:200]
            raise RewardError(
                f"progress model {state['version']} is of other settings, must be of this run's ({why}); restore them"
            ) from error
        self.members.eval()
        self.mean, self.scale = state["mean"].numpy(), state["scale"].numpy()
        self.done_known, self.done_reach = state["done_known"].numpy(), float(state["done_reach"])
        self.look = FinishedLook(columns=state["look_columns"].numpy(), reach=state["look_reach"].numpy())
        scale, offset = state["calibration"].tolist()
        self.calibration, self.text = (scale, offset), state["text"]
        self.seal()
        if self.version != state["version"]:
            raise RewardError(f"progress model is {self.version}, must be {state['version']}; the file is damaged")
