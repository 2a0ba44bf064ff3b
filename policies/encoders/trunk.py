"""The interface of all image trunks, and what they share: checks, chunks, identity.

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
    """A range of feature columns that gets a head of its own.

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
        """Return the number of columns."""
        return int(self.slice.stop - self.slice.start)


class Trunk(Protocol):
    """A `torch.nn.Module` that maps images to features; N frames, F features.

    Attributes:
        shapes: Camera -> (H, W, 3) of its images.
        parts: What the features consist of for a policy, in order, without gaps. Columns beyond the last part are for
            reward models, see `policies.encoders.thumbnails.thumbnails_of`.
        travels: True if its weights are published with the parameters; False if an actor loads the same file or hub
            id itself, and compares `identity`.
    """

    shapes: dict[str, ImageShape]
    travels: bool

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """Return the parts that the features consist of, in order, without gaps."""
        ...

    @property
    def feature_size(self) -> int:
        """Return F, the length of a frame's features."""
        ...

    @property
    def identity(self) -> str:
        """Return 16 hex digits that name this trunk, see `fingerprint`: features of two trunks never mix."""
        ...

    @property
    def reference(self) -> dict[str, str]:
        """Return a description from which `policies.encoders.registry.load_trunk` builds the trunk elsewhere."""
        ...

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return features (N, F), float32, of images (N, H, W, 3) in [0, 255], uint8 or float, per camera."""
        ...

    def __call__(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return features of images, as `forward` does."""
        ...

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """Encode images uint8 (N, H, W, 3) per camera to features float16 (N, F), as stored and replayed.

        Args:
            images: By camera.
            chunk: Frames a pass.

        Raises:
            SpecError: If a camera is missing or its images have another size, or if a feature is not finite.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Restore the weights that `state_dict` returned."""
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


def encode_frames(trunk: Trunk, images: Mapping[str, np.ndarray], frames: int) -> np.ndarray:
    """Encode the images of so many frames, float16 (N, F), see `Trunk.encode`; without a camera F is 0."""
    return trunk.encode(images) if trunk.feature_size else np.zeros((frames, 0), np.float16)


@torch.no_grad()
def encode_in_chunks(
    trunk: Trunk, images: Mapping[str, np.ndarray], *, chunk: int, device: torch.device | str = "cpu"
) -> np.ndarray:
    """Encode images with any trunk, a chunk of frames per pass; see `Trunk.encode`."""
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
    """Return the first 16 hex digits of a SHA-256 over all that decides the features.

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
