"""Trains the embedded trunk on the demonstrations, without any download, and freezes it.

Four objectives, all from what a robot records by itself: the demonstrated action (BC), the time left (progress),
the features of the next frame, and the displacement of the TCP to where the demonstration ended ("to go"), which is
hindsight from proprioception alone. No object pose is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.nn import functional

from policies.encoders.trunk import Trunk


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFrames:
    """One demonstration of T actions as training input.

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


class EmbeddedConfig(BaseModel):
    """How long and with what augmentation the trunk is trained."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    steps: int = Field(500, ge=1, le=100_000)
    batch: int = Field(96, ge=1, le=4096)
    learning_rate: float = Field(1e-3, gt=0.0, le=1e-1)
    brightness: float = Field(0.25, ge=0.0, le=0.9, description="relative, per image and colour")
    noise: float = Field(4.0, ge=0.0, le=64.0, description="standard deviation of pixel noise, of 255")
    to_go_weight: float = Field(3.0, ge=0.0, le=100.0)


class _Heads(nn.Module):
    """Training-time heads, thrown away afterwards."""

    def __init__(self, features: int, proprio: int, actions: int) -> None:
        super().__init__()

        def mlp(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(inputs, 128), nn.LayerNorm(128), nn.Tanh(), nn.Linear(128, outputs))

        self.action = mlp(features + proprio, actions)
        self.progress = mlp(features, 1)
        self.next = mlp(features + actions, features)


def _augment(images: Tensor, config: EmbeddedConfig, rng: torch.Generator) -> Tensor:
    """Brightness and contrast per image and colour, and pixel noise.

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
    shapes: Mapping[str, tuple[int, int, int]],
    config: EmbeddedConfig,
    *,
    seed: int,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> Trunk:
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
    trunk = Trunk(shapes, to_go.shape[1])
    heads = _Heads(trunk.feature_size, proprio.shape[1], actions.shape[1])
    parameters = [*trunk.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, total_steps=config.steps)
    for step in range(config.steps):
        rows = torch.randint(len(actions), (config.batch,), generator=rng)
        features = trunk({name: _augment(images[name][rows], config, rng) for name in shapes})
        with torch.no_grad():
            target = trunk({name: following[name][rows] for name in shapes})
        state = torch.cat([features, proprio[rows]], dim=1)
        loss = (
            functional.smooth_l1_loss(heads.action(state), actions[rows], beta=0.1)
            + config.to_go_weight * functional.smooth_l1_loss(features[:, -to_go.shape[1] :], to_go[rows], beta=0.1)
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
        trunk.standardise_over(torch.cat([trunk({name: images[name][rows] for name in shapes}) for rows in chunks]))
    return trunk.requires_grad_(False)
