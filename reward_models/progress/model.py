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
from reward_models.progress.common_look import Columns, CommonLook, covered
from reward_models.progress.config import ProgressConfig
from reward_models.progress.network import ProgressNetwork
from robot_stack.types.errors import RewardError

LOOKS = ("always", "finished")
LOOK = ("columns", "camera", "reach", "known")
"""What each of these consists of."""
FEW = tuple(f"{look}.few" for look in LOOKS)
"""Arrays that a model has only where it was adapted; those stored before had none."""
ARRAYS = (
    "mean", "scale", "calibration", "done_known", "done_reach", "thumbnails",
    *(f"{look}.{part}" for look in LOOKS for part in LOOK),
)  # fmt: skip
"""What a model consists of beside its members and its text."""


class FrameScores(NamedTuple):
    """The scores of T frames, each float32, shape (T,).

    Attributes:
        progress: Φ in [0, 1]: mean of the members; 0 of a frame that lacks what successes always show, other than
            before a covered camera.
        success: Probability that the task is done, in [0, 1]: by the mean of what the members say.
        spread: Standard deviation of the members' Φ; 0 where that does not count, since the frame lacks something.
        lacking: Whether a frame lacks what successes always show, bool; None of a model that does not know.
    """

    progress: np.ndarray
    success: np.ndarray
    spread: np.ndarray
    lacking: np.ndarray | None = None


def plain_columns(inputs: int, thumbnails: Sequence[Columns]) -> np.ndarray:
    """Return the columns of a frame's inputs that are no thumbnail, int64."""
    shown = {column for start, stop in thumbnails for column in range(start, stop)}
    return np.array([column for column in range(inputs) if column not in shown])


class ProgressModel:
    """An ensemble over frozen features and proprio, of one task. `version` changes with any of it.

    Attributes:
        text: The task that it was trained on.
        members: The networks, as one module.
        calibration: Scale and offset of the done logit.
        plain: Columns of a frame's inputs that are no thumbnail, R of them, which the members read.
        done_known: Standardised plain inputs of frames that show the finished task, float32, shape (N, R).
        done_reach: Distance from the nearest of them beyond which nothing is called done, however sure the members are.
        always: What the thumbnails of successes show throughout; a frame that lacks it is no progress, unless a
            camera is covered.
        finished: What they show at the end; what lacks it is not done.

    Args:
        inputs: D.
        config: Its size.
        text: The task.
        thumbnails: Columns [start, stop) of each thumbnail in a frame's inputs.
    """

    def __init__(self, inputs: int, config: ProgressConfig, *, text: str, thumbnails: Sequence[Columns] = ()) -> None:
        self.config = config
        self.inputs = inputs
        self.text = text
        self.thumbnails = tuple((start, stop) for start, stop in thumbnails)
        self.plain = plain_columns(inputs, self.thumbnails)
        self.members = nn.ModuleList(
            ProgressNetwork(len(self.plain), width=config.width, layers=config.layers) for _ in range(config.members)
        )
        self.always = self.finished = CommonLook.of([], ())
        self.calibration = (1.0, 0.0)
        self.done_known = np.zeros((0, len(self.plain)), np.float32)
        self.done_reach = float("inf")
        self.mean = np.zeros(inputs, np.float32)
        self.scale = np.ones(inputs, np.float32)
        self.version = ""

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise frames (..., D) as the networks take them, float32."""
        return np.clip((frames - self.mean) * self.scale, -8, 8).astype(np.float32)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames from `start` on, each from its own past only.

        Args:
            frames: Features and proprio of an episode so far, float32, shape (T, D).
            start: First frame to score.

        Returns:
            Scores of T - start frames.
        """
        window = self.config.window
        prefixes = [frames[prefix_indices(last, window)] for last in range(start, len(frames))]
        return self.score_prefixes(np.array(prefixes).reshape(len(prefixes), window, self.inputs))

    def score_prefixes(self, prefixes: np.ndarray) -> FrameScores:
        """Score the last frame of each of N prefixes, float32, shape (N, window, D), see `prefix_indices`."""
        if not len(prefixes):
            none = np.zeros(0, np.float32)
            return FrameScores(none, none, none, np.zeros(0, bool))
        logits, done = self.logits(prefixes)
        phi = torch.sigmoid(logits)
        spread = phi.std(dim=0, correction=0)
        scale, offset = self.calibration
        success = torch.sigmoid(scale * done.mean(dim=0) + offset).numpy()
        there = self.always.fits(prefixes[:, -1])
        success = np.where(there & self.like_done(prefixes[:, -1]), success, np.float32(0))
        shown = there | covered(prefixes[:, -1], self.thumbnails)
        progress = np.where(shown, phi.mean(dim=0).numpy(), np.float32(0))
        return FrameScores(progress, success, np.where(shown, spread.numpy(), np.float32(0)), ~shown)

    def like_done(self, frames: np.ndarray) -> np.ndarray:
        """Return whether frames (N, D) are near those that show the finished task, bool, shape (N,)."""
        alike = self.finished.fits(frames)
        if np.isfinite(self.done_reach):
            away = nearest_distance(self.standardised(frames)[:, self.plain], self.done_known)
            alike &= away <= self.done_reach
        return alike

    def read(self, frames: np.ndarray) -> torch.Tensor:
        """Return what the members read of frames (..., D): their standardised plain inputs, (..., R)."""
        return torch.from_numpy(self.standardised(frames)[..., self.plain])

    @torch.no_grad()
    def logits(self, prefixes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits of progress and of done of each member, not calibrated, each shape (M, N)."""
        shown = self.read(prefixes)
        answers = [member.judge(member.embed(shown)) for member in self.networks]
        return (
            torch.stack([progress[:, -1] for progress, _ in answers]),
            torch.stack([done[:, -1] for _, done in answers]),
        )

    @torch.no_grad()
    def compare(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return the hops from frames to frames (N, D), float32 in [-1, 1], shape (N,): the members' mean."""
        shown = self.read(np.stack([before, after], axis=1))
        hops = []
        for member in self.networks:
            seen = member.embed(shown)
            hops.append(member.compare(seen[:, 0], seen[:, 1]))
        return torch.stack(hops).mean(dim=0).numpy()

    @property
    def networks(self) -> list[ProgressNetwork]:
        """Return the members, by their type."""
        return [cast(ProgressNetwork, member) for member in self.members]

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
            **{
                f"{name}.{part}": torch.from_numpy(getattr(look, part))
                for name, look in zip(LOOKS, (self.always, self.finished), strict=True)
                for part in (*LOOK, *(("few",) if len(look.few) else ()))
            },
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
        self.always, self.finished = (
            CommonLook.stored(
                {part: state[f"{name}.{part}"].numpy() for part in (*LOOK, "few") if f"{name}.{part}" in state}
            )
            for name in LOOKS
        )
        scale, offset = state["calibration"].tolist()
        self.calibration, self.text = (scale, offset), state["text"]
        self.seal()
        if self.version != state["version"]:
            raise RewardError(f"progress model is {self.version}, must be {state['version']}; the file is damaged")
