"""ResNet-10 and ResNet-18 with GroupNorm, frozen from a file or trained end to end.

Source: He et al., 2016, arXiv:1512.03385; Wu and He, 2018, arXiv:1803.08494. Four groups, epsilon 1e-5 and "same"
padding, which is one pixel more below and to the right where a stride of two leaves an odd sum, as in the ResNet-10
of SERL (Luo et al., 2024, arXiv:2401.16013): weights converted from there give the maps they gave there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.encoders.backbone import BackboneTrunk
from policies.encoders.config import ResNetConfig
from policies.encoders.trunk import ImageShape
from policies.encoders.weights import load_strictly, read_safetensors
from policies.precision import exactly

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
GROUPS = 4
WIDTHS = (64, 128, 256, 512)
BLOCKS: Mapping[str, tuple[int, int, int, int]] = {"resnet10": (1, 1, 1, 1), "resnet18": (2, 2, 2, 2)}


def _same(x: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Pad (N, C, h, w) so that ceil(size / stride) cells come out, the odd pixel below and to the right."""
    pads: list[int] = []
    for size in (x.shape[3], x.shape[2]):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return functional.pad(x, pads, value=value)


class _Conv(nn.Conv2d):
    """A convolution without bias, with "same" padding."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, bias=False)
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return functional.conv2d(x, self.weight, padding=kernel // 2)
        return functional.conv2d(_same(x, kernel, stride), self.weight, stride=stride)


class _Norm(nn.GroupNorm):
    """A GroupNorm that returns the type it is given, with statistics in float32.

    Autocast on a GPU would return float32 and so undo what bf16 saves on maps: an update of ResNet-10 on two cameras of
    128x128 took 47 ms with that, 44 ms in float32 throughout and 37 ms like this, on an H100.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == self.weight.dtype:
            return super().forward(x)
        with exactly(x):
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return functional.group_norm(x, self.num_groups, weight, bias, self.eps)


def _norm(channels: int) -> nn.GroupNorm:
    return _Norm(GROUPS, channels, eps=1e-5)


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _Conv(inputs, outputs, 3, stride)
        self.norm1 = _norm(outputs)
        self.conv2 = _Conv(outputs, outputs, 3)
        self.norm2 = _norm(outputs)
        self.projection: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.projection = nn.Sequential(_Conv(inputs, outputs, 1, stride), _norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.projection(x) + self.norm2(self.conv2(y)))


class ResNet(nn.Module):
    """A residual network on normalised pixels; its summary is the mean of its maps.

    Pixels (N, 3, H, W) in [0, 255] become maps (N, 512, ceil(H / 32), ceil(W / 32)) and their mean (N, 512).
    """

    def __init__(self, blocks: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", 255 * torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        self.facts: dict[str, Any] = {"blocks": list(blocks)}
        self.stem = nn.Conv2d(3, WIDTHS[0], 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(self.stem.weight, nonlinearity="relu")
        self.stem_norm = _norm(WIDTHS[0])
        stages: list[nn.Module] = []
        inputs = WIDTHS[0]
        for stage, (count, width) in enumerate(zip(blocks, WIDTHS, strict=True)):
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            stages.append(
                nn.Sequential(*[_Block(inputs if i == 0 else width, width, s) for i, s in enumerate(strides)])
            )
            inputs = width
        self.stages = nn.Sequential(*stages)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return maps and summary of pixels; see `policies.encoders.backbone.Backbone`."""
        x = functional.relu(self.stem_norm(self.stem((pixels - self.mean) / self.std)))
        x = functional.max_pool2d(_same(x, 3, 2, value=-torch.inf), 3, stride=2)
        maps = self.stages(x)
        return maps, maps.mean(dim=(2, 3))


def make_resnet(kind: str, shapes: Mapping[str, ImageShape], config: ResNetConfig, *, seed: int) -> BackboneTrunk:
    """Make a ResNet trunk for the learner, from a weights file or from random weights.

    Args:
        kind: "resnet10" or "resnet18".
        shapes: Camera -> (H, W, 3).
        config: Settings.
        seed: Of random weights, where no file is given.

    Raises:
        ConfigError: If the file is missing, damaged, or of another network.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ResNet(BLOCKS[kind])
    if config.weights is not None:
        path = Path(config.weights).expanduser()
        load_strictly(network, read_safetensors(path, f"weights of encoder {kind}"), f"{path} for encoder {kind}")
    return BackboneTrunk(kind, network, shapes, config, pool=config.pool, trained=config.trained)
