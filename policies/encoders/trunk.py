"""The embedded trunk: one small convolutional network per camera, keypoints and pooled channels out.

Spatial softmax: Levine et al., 2016, arXiv:1504.00702, section 4.2. Coordinates say where a thing is to a fraction
of a pixel, which is what an insertion needs; the pooled channels say whether it is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from robot_stack.types.errors import SpecError

CHANNELS = 64
FUSED = 64
FAST_BF16 = any(torch.cpu.get_capabilities().get(name, False) for name in ("avx512_bf16", "amx_bf16"))
"""Training convolves in bf16 where the processor can: 78 instead of 140 ms a step of 96. Features never do."""


class CameraTrunk(nn.Module):
    """RGB uint8 (N, H, W, 3) -> features (N, 3 * CHANNELS): keypoint x, keypoint y, pooled activation."""

    size = 3 * CHANNELS

    def __init__(self, height_px: int, width_px: int) -> None:
        super().__init__()
        self.grid: Tensor
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, CHANNELS, 3, padding=1),
        )
        self.sharpness = nn.Parameter(torch.full((CHANNELS,), 2.0))
        rows, columns = -(-height_px // 4), -(-width_px // 4)
        y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
        self.register_buffer("grid", torch.stack([x.flatten(), y.flatten()], dim=1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images uint8 or float in [0, 255], shape (N, H, W, 3)."""
        pixels = images.permute(0, 3, 1, 2).float() * (1 / 127.5) - 1.0
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self.training and FAST_BF16):
            maps = self.layers(pixels)
        maps = maps.float().flatten(2)  # (N, C, rows * columns)
        weights = torch.softmax(maps * self.sharpness[:, None], dim=2)
        keypoints = weights @ self.grid  # (N, C, 2)
        pooled = torch.tanh(maps.mean(dim=2))
        return torch.cat([keypoints[..., 0], keypoints[..., 1], pooled], dim=1)


class Trunk(nn.Module):
    """One `CameraTrunk` per camera, and a fused code of all of them from which "to go" is read linearly.

    Features are [camera 1 | camera 2 | ... | fused, to go], standardised over the frames the trunk was trained on.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, int, int]], to_go_size: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.shapes = dict(shapes)
        self.to_go_size = to_go_size
        self.cameras = nn.ModuleDict({name: CameraTrunk(h, w) for name, (h, w, _) in shapes.items()})
        self.fused = nn.Sequential(nn.Linear(self._camera_size, FUSED), nn.LayerNorm(FUSED), nn.Tanh())
        self.to_go = nn.Linear(FUSED, to_go_size)
        self.register_buffer("mean", torch.zeros(self.feature_size))
        self.register_buffer("scale", torch.ones(self.feature_size))

    @property
    def _camera_size(self) -> int:
        return CameraTrunk.size * len(self.cameras)

    @property
    def feature_size(self) -> int:
        """F, the length of a frame's features."""
        return self._camera_size + FUSED + self.to_go_size

    @property
    def slices(self) -> tuple[slice, ...]:
        """Parts of the features that get a head of their own: one per camera, then the fused code."""
        size = CameraTrunk.size
        cameras = [slice(i * size, (i + 1) * size) for i in range(len(self.cameras))]
        return (*cameras, slice(self._camera_size, self.feature_size))

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Features (N, F), not yet standardised, of images (N, H, W, 3) per camera."""
        seen = torch.cat([trunk(images[name]) for name, trunk in self.cameras.items()], dim=1)
        fused = self.fused(seen)
        return torch.cat([seen, fused, self.to_go(fused)], dim=1)

    @torch.no_grad()
    def standardise_over(self, features: Tensor) -> None:
        """Fix mean and scale from the features (N, F) of the training frames."""
        self.mean.copy_(features.mean(dim=0))
        self.scale.copy_(features.std(dim=0).clamp_min(1e-3).reciprocal())

    @torch.no_grad()
    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """Features as stored and replayed: standardised, clipped to +-8, float16, shape (N, F).

        Args:
            images: Camera -> uint8 (N, H, W, 3).
            chunk: Frames a pass.

        Raises:
            SpecError: If a camera is missing or has another size.
        """
        for name, shape in self.shapes.items():
            if name not in images or images[name].shape[1:] != shape:
                got = images[name].shape if name in images else "missing"
                raise SpecError(f"images of camera {name} are {got}, must be (N, {shape}) as the trunk was trained")
        count = len(next(iter(images.values())))
        parts = [
            self({name: torch.from_numpy(images[name][i : i + chunk]) for name in self.shapes})
            for i in range(0, count, chunk)
        ]
        if not parts:
            return np.zeros((0, self.feature_size), np.float16)
        return ((torch.cat(parts) - self.mean) * self.scale).clamp_(-8, 8).half().numpy()

    @property
    def identity(self) -> str:
        """SHA-256 over names and weights, first 16 hex digits: features of another trunk never mix."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]
