"""The builders of the trunks of all encoders, which need torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from torch import Tensor

from policies.encoders.backbone import BackboneTrunk
from policies.encoders.config import EmbeddedConfig, NoConfig, ResNetConfig, TimmConfig, TransformersConfig
from policies.encoders.embedded import DemoFrames, EmbeddedTrunk, fit_trunk
from policies.encoders.none import load_none, make_none
from policies.encoders.pretrained import make_timm, make_tower
from policies.encoders.resnet import BLOCKS, ResNet, make_resnet
from policies.encoders.trunk import ImageShape, Trunk
from robot_stack.plugins import ConfigT
from robot_stack.types.errors import SpecError

Shapes = Mapping[str, ImageShape]
OnStep = Callable[[int, int, float], None]


@dataclass(frozen=True, kw_only=True)
class TrunkBuilders(Generic[ConfigT]):
    """The builders of one encoder's trunk.

    Attributes:
        fit: Called as fit(shapes, config, demos, seed, on_step); see `policies.encoders.registry.make_trunk`.
        load: Called as load(shapes, settings, tensors); see `policies.encoders.registry.load_trunk`.
    """

    fit: Callable[[Shapes, ConfigT, Iterable[DemoFrames], int, OnStep], Trunk]
    load: Callable[[Shapes, str, Mapping[str, Tensor]], Trunk]


def _load_embedded(shapes: Shapes, settings: str, tensors: Mapping[str, Tensor]) -> Trunk:
    sizes = json.loads(settings)
    thumbnail, hidden = int(sizes.get("thumbnail", 0)), int(sizes.get("hidden", 0))  # trunks of before have neither
    trunk = EmbeddedTrunk(shapes, int(sizes["to_go_size"]), thumbnail=thumbnail, hidden=hidden)
    _fill(trunk, tensors)
    return trunk.requires_grad_(False).eval()


def _load_resnet(kind: str, shapes: Shapes, settings: str, tensors: Mapping[str, Tensor]) -> Trunk:
    config = ResNetConfig.model_validate_json(settings)
    if not config.trained:
        return make_resnet(kind, shapes, config, seed=0)
    trunk = BackboneTrunk(kind, ResNet(BLOCKS[kind]), shapes, config, pool=config.pool, trained=True)
    _fill(trunk, tensors)
    return trunk


def _fill(trunk: Any, tensors: Mapping[str, Tensor]) -> None:
    try:
        trunk.load_state_dict(dict(tensors))
    except RuntimeError as error:
        raise SpecError(f"weights of the trunk do not fit the cameras of this cell: {error}") from error


def _resnet(kind: str) -> TrunkBuilders[ResNetConfig]:
    return TrunkBuilders(
        fit=lambda shapes, config, demos, seed, on_step: make_resnet(kind, shapes, config, seed=seed),
        load=partial(_load_resnet, kind),
    )


def _fit_embedded(
    shapes: Shapes, config: EmbeddedConfig, demos: Iterable[DemoFrames], seed: int, on_step: OnStep
) -> Trunk:
    return fit_trunk(list(demos), shapes, config, seed=seed, on_step=on_step)


NONE: TrunkBuilders[NoConfig] = TrunkBuilders(fit=make_none, load=load_none)
EMBEDDED: TrunkBuilders[EmbeddedConfig] = TrunkBuilders(fit=_fit_embedded, load=_load_embedded)
RESNET10 = _resnet("resnet10")
RESNET18 = _resnet("resnet18")
TIMM: TrunkBuilders[TimmConfig] = TrunkBuilders(
    fit=lambda shapes, config, demos, seed, on_step: make_timm(shapes, config),
    load=lambda shapes, settings, tensors: make_timm(shapes, TimmConfig.model_validate_json(settings)),
)
TRANSFORMERS: TrunkBuilders[TransformersConfig] = TrunkBuilders(
    fit=lambda shapes, config, demos, seed, on_step: make_tower(shapes, config),
    load=lambda shapes, settings, tensors: make_tower(shapes, TransformersConfig.model_validate_json(settings)),
)
