"""What every image trunk offers, and what all of them share: checks, chunks, identity.

A trunk turns the images of one frame into one row of features. A frozen trunk is run once per frame and its
features are replayed; a trained one is run again in every update.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from robot_stack.types.errors import SpecError

ImageShape = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePart:
    """Columns of the features that get a head of their own.

    Attributes:
        slice: Columns [start, stop).
        maps: None for a vector, which gets a dense head; (C, h, w) for feature maps, flattened in that order, which
            get a spatial head.
    """

    slice: slice
    maps: tuple[int, int, int] | None

    def __post_init__(self) -> None:
        if self.maps is not None and int(np.prod(self.maps)) != self.size:
            raise SpecError(f"maps of a part are {self.maps}, must have {self.size} values; they fill its columns")

    @property
    def size(self) -> int:
        """Columns."""
        return int(self.slice.stop - self.slice.start)


class Trunk(Protocol):
    """A `torch.nn.Module` from images to features; N frames, F features.

    Attributes:
        shapes: Camera -> (H, W, 3) of its images.
        parts: What the features consist of, in order, without gaps.
        travels: True if its weights are published with the parameters; False if an actor loads the same file or hub
            id itself, and compares `identity`.
    """

    shapes: dict[str, ImageShape]
    travels: bool

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """What the features consist of."""
        ...

    @property
    def feature_size(self) -> int:
        """F."""
        ...

    @property
    def identity(self) -> str:
        """16 hex digits: features of another trunk never mix with its own. See `fingerprint`."""
        ...

    @property
    def reference(self) -> dict[str, str]:
        """From which `policies.encoders.registry.load_trunk` builds it again in another process."""
        ...

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Features (N, F), float32, of images (N, H, W, 3) in [0, 255], uint8 or float, per camera."""
        ...

    def __call__(self, images: Mapping[str, Tensor]) -> Tensor:
        """As `forward`."""
        ...

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """`forward` as stored and replayed: float16 (N, F) of images uint8 (N, H, W, 3) per camera.

        Args:
            images: By camera.
            chunk: Frames a pass.

        Raises:
            SpecError: If a camera is missing or its images have another size, or if a feature is not finite.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights by name."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Inverse of `state_dict`."""
        ...


def check_images(shapes: Mapping[str, ImageShape], images: Mapping[str, Any]) -> None:
    """Refuse images that a trunk was not built for.

    Raises:
        SpecError: If a camera is missing, its images have another size, or one camera has more of them.
    """
    for name, shape in shapes.items():
        if name not in images or tuple(images[name].shape[1:]) != tuple(shape):
            got = tuple(images[name].shape) if name in images else "missing"
            raise SpecError(f"images of camera {name} are {got}, must be (N, {shape}) as the trunk was made for")
    counts = {name: len(images[name]) for name in shapes}
    if len(set(counts.values())) > 1:
        raise SpecError(f"images per camera are {counts}, must be equally many; encode whole frames only")


@torch.no_grad()
def encode_in_chunks(
    trunk: Trunk, images: Mapping[str, np.ndarray], *, chunk: int, device: torch.device | str = "cpu"
) -> np.ndarray:
    """`Trunk.encode` for any trunk; see there."""
    check_images(trunk.shapes, images)
    count = len(images[next(iter(trunk.shapes))])
    rows = np.zeros((count, trunk.feature_size), np.float16)
    for start in range(0, count, chunk):
        part = slice(start, start + chunk)
        features = trunk({name: torch.from_numpy(images[name][part]).to(device) for name in trunk.shapes}).half()
        if not torch.isfinite(features).all():
            raise SpecError("a feature is not finite as float16, must be; check the weights of the trunk")
        rows[part] = features.cpu().numpy()
    return rows


def fingerprint(
    kind: str, settings: Mapping[str, Any], shapes: Mapping[str, ImageShape], tensors: Mapping[str, Tensor]
) -> str:
    """SHA-256 over what decides the features, first 16 hex digits.

    Args:
        kind: Name of the encoder.
        settings: What else changes its features; not where a file lies.
        shapes: Of the images.
        tensors: Weights by name.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps([kind, dict(settings), {n: list(s) for n, s in shapes.items()}], sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
