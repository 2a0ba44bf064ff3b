"""The registry of encoders by name, and the loading of a trunk that another process describes.

Those below are built in; other packages bring more (`robot_stack.plugins`). Their settings are read without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from policies.encoders.config import EmbeddedConfig, NoConfig, ResNetConfig, TimmConfig, TransformersConfig
from robot_stack import plugins
from robot_stack.plugins import ConfigT, Part, Registry, imported
from robot_stack.types.errors import SpecError

if TYPE_CHECKING:
    from torch import Tensor

    from policies.encoders.builders import OnStep, Shapes, TrunkBuilders
    from policies.encoders.embedded import DemoFrames
    from policies.encoders.trunk import Trunk


def _ignore(step: int, steps: int, loss: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Encoder(Part[ConfigT]):
    """A registered encoder: its settings, how its trunk is made, and how it is loaded elsewhere.

    Attributes:
        config: Model of its settings.
        builders: Returns what makes and loads its trunk.
    """

    builders: Callable[[], TrunkBuilders[ConfigT]]


NONE = Encoder(config=NoConfig, builders=imported("policies.encoders.builders:NONE"))
EMBEDDED = Encoder(config=EmbeddedConfig, builders=imported("policies.encoders.builders:EMBEDDED"))
RESNET10 = Encoder(config=ResNetConfig, builders=imported("policies.encoders.builders:RESNET10"))
RESNET18 = Encoder(config=ResNetConfig, builders=imported("policies.encoders.builders:RESNET18"))
TIMM = Encoder(config=TimmConfig, builders=imported("policies.encoders.builders:TIMM"))
TRANSFORMERS = Encoder(config=TransformersConfig, builders=imported("policies.encoders.builders:TRANSFORMERS"))

ENCODERS: Registry[Encoder[Any]] = Registry(plugins.ENCODERS, Encoder)


def find_encoder(name: str) -> Encoder[Any]:
    """Return the encoder of a name.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    return ENCODERS[name]


def find_trunk_builders(name: str) -> TrunkBuilders[Any]:
    """Return what makes and loads the trunk of an encoder.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    from policies.encoders.builders import TrunkBuilders

    return ENCODERS.builders(name, TrunkBuilders)


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
    return find_trunk_builders(name).fit(shapes, config, demos, seed, on_step)


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
    trunk = find_trunk_builders(reference["encoder"]).load(shapes, reference["settings"], tensors)
    if trunk.identity != reference["identity"]:
        why = "the parameters are damaged" if trunk.travels else "put the learner's weights file on this machine"
        raise SpecError(f"trunk is {trunk.identity}, must be {reference['identity']}; {why}")
    return trunk
