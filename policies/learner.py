"""The Protocol behind which every algorithm stands, and the batch as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from robot_stack.types.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec:
    """What a learner is built for.

    Attributes:
        slices: Parts of the features that get a head of their own.
        proprio_mean: Mean of the proprio vector over the demonstrations, float32, shape (P,), SI units.
        proprio_std: Its standard deviation, same shape.
        actions: A.
    """

    slices: tuple[slice, ...]
    proprio_mean: Tensor
    proprio_std: Tensor
    actions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBatch:
    """`Batch` on a device; fields as there."""

    features: Tensor
    proprio: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_features: Tensor
    next_proprio: Tensor
    expert: Tensor
    gripper_label: Tensor

    @classmethod
    def from_numpy(cls, batch: Batch, device: str = "cpu") -> TensorBatch:
        """Without a copy on the CPU; float16 features become float32 once, here."""
        tensors = {name: torch.from_numpy(getattr(batch, name)).to(device) for name in cls.__slots__}
        for name in ("features", "next_features"):
            tensors[name] = tensors[name].float()
        return cls(**tensors)

    @classmethod
    def for_imitation(cls, features: np.ndarray, proprio: np.ndarray, action: np.ndarray) -> TensorBatch:
        """Expert rows alone, without reward or successor, for learners that only imitate."""
        count = len(action)
        seen, known = torch.from_numpy(features).float(), torch.from_numpy(proprio)
        return cls(
            features=seen,
            proprio=known,
            action=torch.from_numpy(action),
            reward=torch.zeros(count),
            discount=torch.zeros(count),
            next_features=seen,
            next_proprio=known,
            expert=torch.ones(count, dtype=torch.bool),
            gripper_label=torch.ones(count, dtype=torch.bool),
        )


class Learner(Protocol):
    """Learns from batches; resumes exactly from its own state."""

    name: str
    updates: int

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """One update; returns detached scalar metrics."""
        ...

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """What an actor needs to act, fp16, by name."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All state."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        ...
