"""The embedded trunk: a small convolutional network per camera, trained on the demonstrations and then frozen.

No download. Keypoints and pooled channels come out. Spatial softmax: Levine et al., 2016, arXiv:1504.00702, section
4.2: coordinates say where a thing is to a fraction of a pixel, which is what an insertion needs; the pooled channels
say whether it is there.

Four objectives, all from what a robot records by itself: the demonstrated action (BC), the time left (progress),
the features of the next frame, and the displacement of the TCP to where the demonstration ended ("to go"), which is
hindsight from proprioception alone. No object pose is used.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.encoders.config import EmbeddedConfig
from policies.encoders.pooling import SpatialSoftmax
from policies.encoders.thumbnails import LEAST_CONTRAST, shrink, standardised
from policies.encoders.trunk import FeaturePart, ImageShape, encode_in_chunks, fingerprint
from policies.precision import exactly, fast

CHANNELS = 64
FUSED = 64
HIDDEN = 256
"""Width of the layer before the fused code; an angle is no weighted sum of keypoints."""
LIMIT = 8.0
"""Bound of a standardised feature."""


class CameraTrunk(nn.Module):
    """The convolutional network of one camera: keypoint x, keypoint y and pooled activation of each channel.

    RGB images (N, H, W, 3) become features (N, 3 * CHANNELS).
    """

    size = 3 * CHANNELS

    def __init__(self, height_px: int, width_px: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, CHANNELS, 3, padding=1),
        )
        self.sharpness = nn.Parameter(torch.full((CHANNELS,), 2.0))
        self.keypoints = SpatialSoftmax(-(-height_px // 4), -(-width_px // 4))

    def forward(self, images: Tensor) -> Tensor:
        """Return features (N, 3 * CHANNELS) of images (N, H, W, 3) in [0, 255], uint8 or float."""
        pixels = standardised(images)
        # training convolves in bf16 where the processor can, 78 instead of 140 ms a step of 96; features never do
        with fast(pixels.device) if self.training else exactly(pixels):
            maps = self.layers(pixels)
        maps = maps.float()
        keypoints = self.keypoints(maps * self.sharpness[:, None, None])
        return torch.cat([keypoints, torch.tanh(maps.flatten(2).mean(dim=2))], dim=1)


class EmbeddedTrunk(nn.Module):
    """The trunk of all cameras: a `CameraTrunk` for each, and a fused code from which "to go" is read linearly.

    Features are [camera 1 | camera 2 | ... | fused, to go], standardised over the frames the trunk was trained on, and
    then, for reward models, a thumbnail of each camera. Implements `policies.encoders.trunk.Trunk`.

    Args:
        shapes: Of the images.
        to_go_size: Entries of "to go".
        thumbnail: Cells along a side of each thumbnail; 0 for none.
        hidden: Width of the layer before the fused code; 0 for none, as in trunks from before there was one.
    """

    travels = True

    def __init__(
        self, shapes: Mapping[str, ImageShape], to_go_size: int, thumbnail: int = 0, hidden: int = HIDDEN
    ) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.shapes = dict(shapes)
        self.to_go_size = to_go_size
        self.thumbnail = thumbnail
        self.hidden = hidden
        self.cameras = nn.ModuleDict({name: CameraTrunk(h, w) for name, (h, w, _) in shapes.items()})
        widths = (hidden, FUSED) if hidden else (FUSED,)
        self.fused = nn.Sequential(*_layers(self._camera_size, widths))
        with warnings.catch_warnings(action="ignore"):  # without a pose there are no entries, which torch remarks on
            self.to_go = nn.Linear(FUSED, to_go_size)
        self.register_buffer("mean", torch.zeros(self.learned_size))
        self.register_buffer("scale", torch.ones(self.learned_size))

    @property
    def _camera_size(self) -> int:
        return CameraTrunk.size * len(self.cameras)

    @property
    def learned_size(self) -> int:
        """Return the length of what is learned of a frame's features, all but the thumbnails."""
        return self._camera_size + FUSED + self.to_go_size

    @property
    def feature_size(self) -> int:
        """Return F, the length of a frame's features."""
        return self.learned_size + 3 * self.thumbnail**2 * len(self.cameras)

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """Return the parts of the features: one vector per camera, then the fused code with "to go"."""
        return tuple(FeaturePart(slice=columns, maps=None) for columns in self.slices)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Return the columns of each of `parts`."""
        size = CameraTrunk.size
        cameras = [slice(i * size, (i + 1) * size) for i in range(len(self.cameras))]
        return (*cameras, slice(self._camera_size, self.learned_size))

    def measure(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return learned features (N, ...) before they are standardised, of images (N, H, W, 3) per camera."""
        seen = torch.cat([trunk(images[name]) for name, trunk in self.cameras.items()], dim=1)
        fused = self.fused(seen)
        return torch.cat([seen, fused, self.to_go(fused)], dim=1)

    def forward(self, images: Mapping[str, Tensor]) -> Tensor:
        """Return standardised features, clipped to +-LIMIT, and thumbnails, (N, F)."""
        learned = (self.measure(images) - self.mean) * self.scale
        if self.thumbnail:
            learned = torch.cat([learned, shrink({name: images[name] for name in self.cameras}, self.thumbnail)], dim=1)
        return learned.clamp(-LIMIT, LIMIT)

    @torch.no_grad()
    def standardise_over(self, measured: Tensor) -> None:
        """Fix mean and scale from the features that `measure` returned of the training frames."""
        self.mean.copy_(measured.mean(dim=0))
        self.scale.copy_(measured.std(dim=0).clamp_min(1e-3).reciprocal())

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        """Encode images to features that are stored and replayed; see `Trunk.encode`."""
        return encode_in_chunks(self, images, chunk=chunk, device=self.mean.device)

    @property
    def identity(self) -> str:
        """Return the fingerprint of shapes and weights."""
        settings = {**self._settings, "least_contrast": LEAST_CONTRAST}
        return fingerprint("embedded", settings, self.shapes, self.state_dict())

    @property
    def reference(self) -> dict[str, str]:
        """Return the name, settings and identity from which another process builds the same trunk.

        Its weights travel with the parameters; only sizes have to be said.
        """
        return {"encoder": "embedded", "settings": json.dumps(self._settings), "identity": self.identity}

    @property
    def _settings(self) -> dict[str, int]:
        """Return its sizes; one that is 0 is left out, as before there was any: older trunks keep their identity."""
        later = {"thumbnail": self.thumbnail, "hidden": self.hidden}
        return {"to_go_size": self.to_go_size} | {name: size for name, size in later.items() if size}


def _layers(inputs: int, widths: Sequence[int]) -> list[nn.Module]:
    """Return layers of these widths, each with LayerNorm and tanh."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.Tanh()]
        inputs = width
    return layers


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFrames:
    """The frames and actions of one demonstration of T actions, as training input of the trunk.

    Attributes:
        images: Camera -> uint8 (T+1, H, W, 3).
        proprio: float32 (T+1, P).
        actions: Executed, float32 (T, A).
        to_go: Displacement of the TCP from frame t to the last frame, in frame t's tcp frame, scaled to about one,
            float32 (T+1, G).
    """

    images: Mapping[str, np.ndarray]
    proprio: np.ndarray
    actions: np.ndarray
    to_go: np.ndarray


REFIT = ("refit_at", "refit_steps")
"""Settings that say when the trunk is fitted again, and nothing of the one that is there."""


class _Heads(nn.Module):
    """Heads of the training objectives, thrown away after training."""

    def __init__(self, features: int, proprio: int, actions: int) -> None:
        super().__init__()

        def mlp(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(inputs, 128), nn.LayerNorm(128), nn.Tanh(), nn.Linear(128, outputs))

        self.action = mlp(features + proprio, actions)
        self.progress = mlp(features, 1)
        self.next = mlp(features + actions, features)


def _augment(images: Tensor, config: EmbeddedConfig, rng: torch.Generator) -> Tensor:
    """Vary brightness and contrast per image and colour, and add pixel noise.

    No shifts: where a thing is in the image is what the trunk has to measure.
    """
    pixels = images.float()
    count = len(pixels)
    gain = 1 + config.brightness * (2 * torch.rand(count, 1, 1, 3, generator=rng) - 1)
    bias = 25 * config.brightness * (2 * torch.rand(count, 1, 1, 1, generator=rng) - 1)
    pixels = pixels * gain + bias + config.noise * torch.randn(pixels.shape, generator=rng)
    return pixels.clamp_(0, 255)


def fit_trunk(
    demos: Sequence[DemoFrames],
    shapes: Mapping[str, ImageShape],
    config: EmbeddedConfig,
    *,
    seed: int,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> EmbeddedTrunk:
    """Train a trunk on demonstrations.

    Args:
        demos: At least one demonstration.
        shapes: Camera -> image shape.
        config: Training budget.
        seed: Seeds weights, batches and augmentation.
        on_step: Told (step, steps, loss) after each step.

    Returns:
        The frozen trunk: no parameter asks for a gradient.
    """
    torch.manual_seed(seed)
    rng = torch.Generator().manual_seed(seed)
    images = {name: torch.from_numpy(np.concatenate([d.images[name][:-1] for d in demos])) for name in shapes}
    following = {name: torch.from_numpy(np.concatenate([d.images[name][1:] for d in demos])) for name in shapes}
    proprio = torch.from_numpy(np.concatenate([d.proprio[:-1] for d in demos]))
    actions = torch.from_numpy(np.concatenate([d.actions for d in demos]))
    to_go = torch.from_numpy(np.concatenate([d.to_go[:-1] for d in demos]))
    progress = torch.cat([torch.linspace(0, 1, len(d.actions) + 1)[:-1] for d in demos])
    trunk = EmbeddedTrunk(shapes, to_go.shape[1], config.thumbnail)
    heads = _Heads(trunk.learned_size, proprio.shape[1], actions.shape[1])
    parameters = [*trunk.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, total_steps=config.steps)
    for step in range(config.steps):
        rows = torch.randint(len(actions), (config.batch,), generator=rng)
        features = trunk.measure({name: _augment(images[name][rows], config, rng) for name in shapes})
        with torch.no_grad():
            target = trunk.measure({name: following[name][rows] for name in shapes})
        state = torch.cat([features, proprio[rows]], dim=1)
        way = features[:, features.shape[1] - to_go.shape[1] :]
        loss = (
            functional.smooth_l1_loss(heads.action(state), actions[rows], beta=0.1)
            + config.to_go_weight * (functional.smooth_l1_loss(way, to_go[rows], beta=0.1) if to_go.shape[1] else 0.0)
            + functional.mse_loss(heads.progress(features)[:, 0], progress[rows])
            + functional.mse_loss(heads.next(torch.cat([features, actions[rows]], dim=1)), target)
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimiser.step()
        schedule.step()
        on_step(step + 1, config.steps, float(loss.detach()))
    trunk.eval()
    with torch.no_grad():
        chunks = [slice(i, i + 128) for i in range(0, len(actions), 128)]
        measured = [trunk.measure({name: images[name][rows] for name in shapes}) for rows in chunks]
        trunk.standardise_over(torch.cat(measured))
    return trunk.requires_grad_(False)
