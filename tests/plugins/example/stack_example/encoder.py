"""An encoder that keeps the colours of a coarse grid, without any training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from policies.encoders.backbone import BackboneTrunk
from policies.encoders.builders import OnStep, Shapes, TrunkBuilders
from policies.encoders.embedded import DemoFrames
from policies.encoders.registry import Encoder


class ColoursConfig(BaseModel):
    """Settings of the colours."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    grid: int = Field(4, ge=1, le=16, description="cells along each side")


class Colours(nn.Module):
    """The mean colour of each cell of a grid, in [0, 1]; implements `Backbone`."""

    def __init__(self, grid: int) -> None:
        super().__init__()
        self.facts = {"grid": grid}
        self.scale = nn.Parameter(torch.tensor(1 / 255))
        self.cells = nn.AdaptiveAvgPool2d(grid)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return maps (N, 3, grid, grid) and summary (N, 3 * grid * grid)."""
        maps = self.cells(pixels) * self.scale
        return maps, maps.flatten(1)


def build(shapes: Shapes, config: ColoursConfig) -> BackboneTrunk:
    """Build the trunk; it is the same wherever it is built."""
    return BackboneTrunk("example_colours", Colours(config.grid), shapes, config, pool="pooled", trained=False)


def fit(
    shapes: Shapes, config: ColoursConfig, demos: Iterable[DemoFrames], seed: int, on_step: OnStep
) -> BackboneTrunk:
    """Build the learner's trunk; nothing of it is trained."""
    return build(shapes, config)


def load(shapes: Shapes, settings: str, tensors: Mapping[str, Tensor]) -> BackboneTrunk:
    """Build the actor's trunk from the settings that the learner published."""
    return build(shapes, ColoursConfig.model_validate_json(settings))


ENCODER = Encoder(config=ColoursConfig, builders=lambda: TrunkBuilders(fit=fit, load=load))
