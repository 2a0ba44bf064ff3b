"""The registry of encoders by name, and the loading of a trunk that another process describes.

Those below are built in; other packages bring more (`robot_stack.plugins`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel
from torch import Tensor

from policies.encoders.backbone import BackboneTrunk
from policies.encoders.embedded import DemoFrames, EmbeddedConfig, EmbeddedTrunk, fit_trunk
from policies.encoders.none import NoConfig, load_none, make_none
from policies.encoders.pretrained import TimmConfig, TransformersConfig, make_timm, make_tower
from policies.encoders.resnet import BLOCKS, ResNet, ResNetConfig, make_resnet
from policies.encoders.trunk import ImageShape, Trunk
from robot_stack import plugins
from robot_stack.plugins import ConfigT, Part, Registry
from robot_stack.types.errors import SpecError

Shapes = Mapping[str, ImageShape]
OnStep = Callable[[int, int, float], None]


def _ignore(step: int, steps: int, loss: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Encoder(Part[ConfigT]):
    """A registered encoder: its settings, how its trunk is made, and how it is loaded elsewhere.

    Attributes:
        config: Model of its settings.
        fit: Called as fit(shapes, config, demos, seed, on_step); see `make_trunk`.
        load: Called as load(shapes, settings, tensors); see `load_trunk`.
    """

    fit: Callable[[Shapes, ConfigT, Iterable[DemoFrames], int, OnStep], Trunk]
    load: Callable[[Shapes, str, Mapping[str, Tensor]], Trunk]


def _load_embedded(shapes: Shapes, settings: str, tensors: Mapping[str, Tensor]) -> Trunk:
    sizes = json.loads(settings)
    trunk = EmbeddedTrunk(shapes, int(sizes["to_go_size"]), int(sizes.get("thumbnail", 0)))
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


def _resnet(kind: str) -> Encoder[ResNetConfig]:
    return Encoder(
        config=ResNetConfig,
        fit=lambda shapes, config, demos, seed, on_step: make_resnet(kind, shapes, config, seed=seed),
        load=partial(_load_resnet, kind),
    )


def _fit_embedded(
    shapes: Shapes, config: EmbeddedConfig, demos: Iterable[DemoFrames], seed: int, on_step: OnStep
) -> Trunk:
    return fit_trunk(list(demos), shapes, config, seed=seed, on_step=on_step)


NONE = Encoder(config=NoConfig, fit=make_none, load=load_none)
EMBEDDED = Encoder(config=EmbeddedConfig, fit=_fit_embedded, load=_load_embedded)
RESNET10 = _resnet("resnet10")
RESNET18 = _resnet("resnet18")
TIMM = Encoder(
    config=TimmConfig,
    fit=lambda shapes, config, demos, seed, on_step: make_timm(shapes, config),
    load=lambda shapes, settings, tensors: make_timm(shapes, TimmConfig.model_validate_json(settings)),
)
TRANSFORMERS = Encoder(
    config=TransformersConfig,
    fit=lambda shapes, config, demos, seed, on_step: make_tower(shapes, config),
    load=lambda shapes, settings, tensors: make_tower(shapes, TransformersConfig.model_validate_json(settings)),
)

ENCODERS: Registry[Encoder[Any]] = Registry(plugins.ENCODERS, Encoder)


def find_encoder(name: str) -> Encoder[Any]:
    """Return the encoder of a name.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    return ENCODERS[name]


def make_trunk(
    name: str,
    shapes: Shapes,
    config: BaseModel,
    *,
    demos: Iterable[DemoFrames],
    seed: int,
    on_step: OnStep = _ignore,
) -> Trunk:
    """Make the learner's trunk: load it, or train it on demonstrations, as its encoder does.

    Args:
        name: Of the encoder.
        shapes: Camera -> (H, W, 3).
        config: Of the class that the encoder names.
        demos: Demonstrations; read by encoders that are trained on them, else not touched.
        seed: Of weights and training.
        on_step: Told (step, steps, loss) by encoders that are trained here.

    Raises:
        ConfigError: If there is no such encoder, or its weights cannot be loaded.
    """
    return find_encoder(name).fit(shapes, config, demos, seed, on_step)


def load_trunk(reference: Mapping[str, str], shapes: Shapes, tensors: Mapping[str, Tensor]) -> Trunk:
    """Load the trunk that `Trunk.reference` describes, in another process.

    Args:
        reference: As published.
        shapes: Of this cell's cameras.
        tensors: Its `state_dict`, in any float type, where it `travels`; else not looked at.

    Raises:
        ConfigError: If its file or model is not on this machine.
        SpecError: If what was loaded is not the same trunk.
    """
    trunk = find_encoder(reference["encoder"]).load(shapes, reference["settings"], tensors)
    if trunk.identity != reference["identity"]:
        why = "the parameters are damaged" if trunk.travels else "put the learner's weights file on this machine"
        raise SpecError(f"trunk is {trunk.identity}, must be {reference['identity']}; {why}")
    return trunk
