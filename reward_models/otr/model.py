r"""Progress by optimal transport of an episode so far to a recorded success; nothing is trained.

After OTR (Luo et al., 2023, arXiv:2303.13971), where the reward of a step is what it costs to transport it to a
demonstration in the best plan of a whole episode. Deviations, so that every frame has a potential that knows its own
past only: the episode so far is transported to each beginning of the demonstration, and the cheapest of these says how
far it has come; Φ is the demonstration's progress where the plan puts the newest frame. So a robot that goes back loses
Φ, and the rule of rewards makes its potential-based difference of it, as of every other Φ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from reward_models.alarms import nearest_distance
from reward_models.otr.config import OtrConfig
from reward_models.otr.transport import costs_between, transport
from reward_models.progress.clips import ScoredEpisode, prefix_indices
from reward_models.progress.fit import DONE_KNOWN, FitReport, report_on, standard
from reward_models.progress.model import FrameScores, plain_columns
from robot_stack.types.errors import RewardError

ARRAYS = ("mean", "scale", "plain", "frames", "labels", "lengths", "done_known", "done_reach")
SOFT = 0.1
"""Beginnings of a reference that cost so much more than the cheapest, as a share of it, count e times less."""
DONE = 0.85
"""Probability of success that counts as done in the report of a fit."""
FEWEST = 2
"""Successes without which nothing is known of how far the ends of two of them lie apart."""
STEEP = 4
"""How fast the probability of success falls around the reach: .5 at it, .8 at `NEAR` of it."""
NEAR = 0.75
"""Share of the reach that lies between the end of a usual success and the next one's."""


class OtrModel:
    """A live reward model that transports episodes to references; see `reward_models.model_per_task.TaskModel`.

    Args:
        config: Size of the transport.
        text: The task.
        arrays: By the names of `ARRAYS`: mean and scale of a frame's D inputs, the P of them that are read, frames of
            all references (F, P), standardised, their progress (F,), the frames of each (R,), frames that show the
            finished task (N, P), and the distance to them at which half of them would be believed, shape (1,).
    """

    def __init__(self, config: OtrConfig, *, text: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.config, self.text = config, text
        self._arrays = {name: np.asarray(arrays[name]) for name in ARRAYS}
        self._references = [
            self._prepared(frames, labels)
            for frames, labels in zip(
                np.split(self._arrays["frames"], np.cumsum(self._arrays["lengths"])[:-1]),
                np.split(self._arrays["labels"], np.cumsum(self._arrays["lengths"])[:-1]),
                strict=True,
            )
        ]
        digest = hashlib.sha256(f"{text} {config.model_dump_json()}".encode())
        for name, array in sorted(self._arrays.items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        self.version = digest.hexdigest()[:16]

    def _prepared(self, frames: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of each beginning of a reference, (E, K, P), and their progress, (E, K)."""
        ends = np.unique(np.linspace(1, len(frames) - 1, self.config.ends).round().astype(int))
        picked = np.stack([prefix_indices(int(end), self.config.points) for end in ends])
        return frames[picked], labels[picked]

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        """Standardise frames (..., D), float32; thumbnails stay in the units of their images."""
        return np.clip((frames - self._arrays["mean"]) * self._arrays["scale"], -8, 8).astype(np.float32)

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """Score the frames (T, D) of an episode so far from `start` on, each from its own past only."""
        read = self.standardised(frames)[:, self._arrays["plain"]].astype(np.float64)
        phi = np.array([self._progress(read[: last + 1]) for last in range(start, len(read))])
        phi = phi.reshape(len(read) - start, len(self._references))
        spread = phi.std(axis=1)
        progress = np.clip(phi.mean(axis=1) - spread, 0.0, 1.0)
        return FrameScores(*(part.astype(np.float32) for part in (progress, self._success(read[start:]), spread)))

    def _progress(self, prefix: np.ndarray) -> list[float]:
        """Return Φ of the last frame of a prefix (T, P) by each reference."""
        shown = prefix[prefix_indices(len(prefix) - 1, self.config.points)]
        found = []
        for points, labels in self._references:
            costs = costs_between(shown[None], points)
            plan = transport(costs, entropy=self.config.entropy, iterations=self.config.iterations)
            total = (plan * costs).sum(axis=(1, 2))
            weight = np.exp(-(total - total.min()) / max(SOFT * total.min(), 1e-12))
            newest = (plan[:, -1] * labels).sum(axis=1) * len(shown)
            found.append(float((weight * newest).sum() / weight.sum()))
        return found

    def _success(self, frames: np.ndarray) -> np.ndarray:
        """Return the probability that frames (N, P) show the finished task, by how near the known ones are."""
        if not len(frames):
            return np.zeros(0)
        away = nearest_distance(frames, self._arrays["done_known"])
        return np.asarray(0.5 ** ((away / self._arrays["done_reach"]) ** STEEP))

    def stored(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return tensors and texts as a file keeps them, by name."""
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in self._arrays.items()}
        return tensors, {"version": self.version, "text": self.text}


def fit(
    episodes: Sequence[ScoredEpisode],
    config: OtrConfig,
    *,
    text: str,
    seed: int,
    on_step: Callable[[int, int, float], None],
) -> tuple[OtrModel, FitReport, None]:
    """Choose the references among recorded successes, and measure what they say of the other ones.

    References are the successes whose lengths are nearest to the median: neither the hasty nor the slow.

    Args:
        episodes: Judged, two successes at least; of many the newest count.
        text: What the robot was told.
        seed: Not used: nothing is random.
        on_step: Told (step, steps, 0) of each success that is scored: nothing has a loss.

    Raises:
        RewardError: If there are fewer than two successes of three frames or more.
    """
    successes = [episode for episode in episodes if episode.success and len(episode.frames) > 2][-DONE_KNOWN:]
    if len(successes) < FEWEST:
        raise RewardError(
            f"successful episodes are {len(successes)}, must be at least {FEWEST}: what is done is told by how far "
            "their ends lie apart; record more demonstrations"
        )
    lengths = np.array([len(episode.frames) for episode in successes])
    order = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")
    chosen = set(order[: min(config.references, len(successes) - 1)].tolist())
    model = OtrModel(config, text=text, arrays=_arrays(successes, [successes[i] for i in sorted(chosen)]))
    others = [episode for i, episode in enumerate(successes) if i not in chosen]
    scored = []
    for number, episode in enumerate(others):
        scored.append(model.score(episode.frames))
        on_step(number + 1, len(others), 0.0)
    report = report_on(model.version, others, scored, threshold=DONE)
    return model, report, None


def _arrays(successes: Sequence[ScoredEpisode], references: Sequence[ScoredEpisode]) -> dict[str, np.ndarray]:
    known, thumbnails = np.concatenate([episode.frames for episode in successes]), successes[0].thumbnails
    mean, scale = standard(known, thumbnails)
    plain = plain_columns(known.shape[1], thumbnails)

    def read(frames: np.ndarray) -> np.ndarray:
        return np.clip((frames - mean) * scale, -8, 8).astype(np.float32)[:, plain]

    ends = [read(episode.frames[-min(episode.done_frames, len(episode.frames) - 1) :]) for episode in successes]
    apart = [
        nearest_distance(end, np.concatenate([other for j, other in enumerate(ends) if j != i])).max()
        for i, end in enumerate(ends)
    ]
    labels = [
        np.linspace(0.0, 1.0, len(one.frames)) if one.progress is None else np.asarray(one.progress)
        for one in references
    ]
    return {
        "mean": mean.astype(np.float32),
        "scale": scale.astype(np.float32),
        "plain": plain,
        "frames": np.concatenate([read(one.frames) for one in references]),
        "labels": np.concatenate(labels).astype(np.float64),
        "lengths": np.array([len(one.frames) for one in references], np.int64),
        "done_known": np.concatenate(ends),
        "done_reach": np.array([max(float(np.median(apart)) / NEAR, 1e-3)]),
    }


def restore(tensors: Mapping[str, Tensor], texts: Mapping[str, str], config: OtrConfig) -> OtrModel:
    """Build a model from what `OtrModel.stored` gave.

    Raises:
        RewardError: If something lacks, or it is not of the version that it claims.
    """
    lacking = [name for name in ARRAYS if name not in tensors]
    if lacking or "text" not in texts:
        raise RewardError(
            f"stored reward model lacks {lacking or ['text']}, must be written by this program; fit it again"
        )
    model = OtrModel(config, text=texts["text"], arrays={name: tensors[name].numpy() for name in ARRAYS})
    if model.version != texts.get("version"):
        raise RewardError(
            f"reward model is {model.version}, must be {texts.get('version')}; its file is damaged or of other settings"
        )
    return model
