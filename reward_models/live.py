"""The registry of live reward models, which score every frame as it comes and are fitted anew during a run.

Those below are built in; other packages bring more (`robot_stack.plugins`). Their settings are read without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reward_models.expression.config import ExpressionConfig
from reward_models.otr.config import OtrConfig
from reward_models.progress.config import LiveRewardConfig, ProgressConfig
from robot_stack import plugins
from robot_stack.plugins import Part, Registry, imported
from robot_stack.types.errors import ConfigError

if TYPE_CHECKING:
    from reward_models.live_builders import LiveBuilders

LiveT = TypeVar("LiveT", bound=LiveRewardConfig)


@dataclass(frozen=True, kw_only=True)
class LiveModel(Part[LiveT]):
    """A live reward model, as `reward: {name: ...}` names it.

    Attributes:
        builders: Returns what fits and restores it.
        says_progress: False for a model that knows success alone, whose Φ is NaN.

    Raises:
        ConfigError: If the settings lack what the learner reads.
    """

    builders: Callable[[], LiveBuilders[LiveT]]
    says_progress: bool = True

    def __post_init__(self) -> None:
        if not issubclass(self.config, LiveRewardConfig):
            raise ConfigError(f"settings are {self.config.__name__}, must be a subclass of LiveRewardConfig")


PROGRESS = LiveModel(config=ProgressConfig, builders=imported("reward_models.live_builders:PROGRESS"))
OTR = LiveModel(config=OtrConfig, builders=imported("reward_models.live_builders:OTR"))
EXPRESSION = LiveModel(config=ExpressionConfig, builders=imported("reward_models.live_builders:EXPRESSION"))

LIVE_MODELS: Registry[LiveModel[Any]] = Registry(plugins.LIVE_REWARD_MODELS, LiveModel)


def find_live(name: str) -> LiveModel[Any]:
    """Return the live reward model of a name.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    model = LIVE_MODELS[name]
    if model.config.part != name:
        raise ConfigError(
            f"settings of live reward model {name!r} say part {model.config.part!r}, must say {name!r}; correct "
            f"{model.config.__module__}.{model.config.__name__}"
        )
    return model


def find_live_builders(name: str) -> LiveBuilders[Any]:
    """Return what fits and restores a live reward model.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    from reward_models.live_builders import LiveBuilders

    return LIVE_MODELS.builders(name, LiveBuilders)
