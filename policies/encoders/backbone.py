"""One backbone for all cameras of a cell: batched over them, pooled, and named.

The networks themselves are in `resnet` and `pretrained`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn

from policies.encoders.config import Pool
from policies.encoders.pooling import Pooling
from policies.encoders.trunk import FeaturePart, ImageShape, check_images, encode_in_chunks, fingerprint


class Backbone(Protocol):
    """A `torch.nn.Module` that maps pixels to feature maps and one summary vector.

    Attributes:
        facts: What else than its weights decides its features: normalisation, size of its input.
    """

    facts: dict[str, Any]

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return maps (N, C, h, w) and summary (N, D) of pixels (N, 3, H, W), RGB float in [0, 255]."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""
        ...


class BackboneTrunk(nn.Module):
    """One backbone shared by all cameras; cameras of equal size go through it in one pass.

    Implements `policies.encoders.trunk.Trunk`: features are [camera 1 | camera 2 | ...]. Frozen, it stays in
    evaluation mode whatever the module around it is set to, and no parameter asks for a gradient.

    Args:
        kind: Name of the encoder.
        backbone: A `Backbone`.
        shapes: Camera -> (H, W, 3).
        config: Settings of the encoder, from which another process builds it again.
        pool: What is kept per image.
        trained: True if it is trained with the learner: its weights travel, and are no part of its identity.
    """

    def __init__(
        self,
        kind: str,
        backbone: Backbone,
        shapes: Mapping[str, ImageShape],
        config: BaseModel,
        *,
        pool: Pool,
        trained: bool,
    ) -> None:
        super().__init__()
        self.shapes = {name: (int(h), int(w), int(c)) for name, (h, w, c) in shapes.items()}
        self.travels = trained
        self.kind = kind
        self.backbone: Backbone = backbone
        self._settings = config.model_dump_json()
        self.requires_grad_(trained)
        self.train(trained)
        self.pooling = nn.ModuleDict()
        self.feature_size = 0
        parts: list[FeaturePart] = []
        for name, (height, width, _) in self.shapes.items():
            with torch.no_grad():
                maps, summary = backbone(torch.zeros(1, 3, height, width))
            _, channels, rows, columns = maps.shape
            pooling = Pooling(pool, summary_size=summary.shape[1], maps=(channels, rows, columns))
            part = slice(self.feature_size, self.feature_size + pooling.size)
            parts.append(FeaturePart(slice=part, maps=pooling.maps))
            self.feature_size = part.stop
            self.pooling[name] = pooling
        self.parts = tuple(parts)
        facts = {**backbone.facts, "pool": pool}
        weights = {} if trained else backbone.state_dict()
        self._identity = fingerprint(kind, facts, self.shapes, weights)

    def train(self, mode: bool = True) -> Self:
        """Set training mode as in torch; a frozen trunk always stays in evaluation mode."""
        return super().train(mode and self.travels)

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return features (N, F) of images (N, H, W, 3) in [0, 255], uint8 or float, per camera."""
        check_images(self.shapes, images)
        found: dict[str, Tensor] = {}
        for size in dict.fromkeys(self.shapes.values()):
            names = [name for name, shape in self.shapes.items() if shape == size]
            pixels = torch.cat([images[name] for name in names]).permute(0, 3, 1, 2).float()
            maps, summary = self.backbone(pixels)
            for name, part, vector in zip(names, maps.chunk(len(names)), summary.chunk(len(names)), strict=True):
                found[name] = self.pooling[name](part, vector)
        return torch.cat([found[name] for name in self.shapes], dim=1)

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """Encode images to features that are stored and replayed; see `Trunk.encode`."""
        return encode_in_chunks(self, images, chunk=chunk, device=next(self.parameters()).device)

    @property
    def identity(self) -> str:
        """Return the fingerprint of settings, shapes and, when frozen, the weights as they were loaded."""
        return self._identity

    @property
    def reference(self) -> dict[str, str]:
        """Return the name, settings and identity from which another process loads the same trunk.

        A frozen trunk is loaded from the same file or hub id; a trained one gets its weights with it.
        """
        return {"encoder": self.kind, "settings": self._settings, "identity": self.identity}
