"""The encoder that looks at nothing: a policy and a reward model on proprio alone, as of an environment of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from policies.encoders.config import NoConfig
from policies.encoders.embedded import DemoFrames
from policies.encoders.trunk import FeaturePart, ImageShape, fingerprint


class NoTrunk(nn.Module):
    """A trunk without features, whatever the images; implements `policies.encoders.trunk.Trunk`."""

    travels = False
    feature_size = 0
    parts: tuple[FeaturePart, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, ImageShape] = {}

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return features (N, 0) of N images."""
        return torch.zeros(_count(images), 0)

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """Return features float16 (N, 0) of N images."""
        return np.zeros((_count(images), 0), np.float16)

    @property
    def identity(self) -> str:
        """Return the fingerprint of looking at nothing."""
        return fingerprint("none", {}, {}, {})

    @property
    def reference(self) -> dict[str, str]:
        """Return the description from which another process builds it."""
        return {"encoder": "none", "settings": "{}", "identity": self.identity}


def make_none(
    shapes: Mapping[str, ImageShape], config: NoConfig, demos: Iterable[DemoFrames], seed: int, on_step: object
) -> NoTrunk:
    """Make the trunk that looks at nothing; no demonstration is read."""
    return NoTrunk()


def load_none(shapes: Mapping[str, ImageShape], settings: str, tensors: Mapping[str, Tensor]) -> NoTrunk:
    """Make the trunk that looks at nothing, in another process."""
    return NoTrunk()


def _count(images: Mapping[str, Any]) -> int:
    return len(next(iter(images.values()))) if images else 0
