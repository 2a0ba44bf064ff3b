"""The registry of large reward models by name: those below, and those of other packages (`robot_stack.plugins`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from reward_models.interface import RewardModel
from reward_models.vlm import grm, lrm, roboreward, vlac, yesno
from reward_models.vlm.checkpoint import find_folder
from reward_models.vlm.clip import ClipBaseline
from reward_models.vlm.config import (
    ClipSettings,
    FamilySettings,
    GrmSettings,
    LrmSettings,
    RoboRewardSettings,
    ServerSettings,
    VlacSettings,
    YesNoSettings,
)
from reward_models.vlm.endpoint import Endpoint
from reward_models.vlm.guard import Guarded
from reward_models.vlm.in_process import InProcess
from reward_models.vlm.licences import LICENCES, UNKNOWN, check_licence, licence_of
from reward_models.vlm.prompt import Backend
from reward_models.vlm.wording import Wording, read_prompt_file
from robot_stack import plugins
from robot_stack.plugins import ConfigT, Part, Registry
from robot_stack.types.errors import RewardError


@dataclass(frozen=True, kw_only=True)
class Family(Part[ConfigT]):
    """A family of large reward models, as `reward: {rescore: {name: ...}}` names it.

    Attributes:
        make: Builds the model of some settings.
        shapes: Whether a model of these settings says how far an episode is, and not only whether it is done.
        licence: Of the published weights, where it is not for commercial work: it holds for whatever a server calls
            them.
    """

    make: Callable[[ConfigT], RewardModel]
    shapes: Callable[[ConfigT], bool] = lambda settings: True
    licence: str | None = None


def _asking(
    kind: Callable[[Backend, Any, dict[str, Wording]], RewardModel], wordings: Mapping[str, Wording]
) -> Callable[[Any], RewardModel]:
    """Return what makes a model that asks one backend, in its own words or in those of a file that settings name."""

    def make(settings: Any) -> RewardModel:
        return kind(_backend(settings), settings, read_prompt_file(settings.prompt_file, wordings))

    return make


def _make_lrm(settings: LrmSettings) -> RewardModel:
    wordings = read_prompt_file(settings.prompt_file, lrm.WORDINGS)
    backends: Mapping[str, Backend]
    if settings.weights is not None:
        adapters = {str(question): model for question, model in settings.adapters.items()}
        backends = InProcess.load_adapters(settings.weights, adapters, accepted=settings.accept_license)
    else:
        server = _server(settings)
        backends = {name: make_endpoint(server, served) for name, served in settings.adapters.items()}
    return lrm.Lrm(backends, settings, wordings)


CLIP = Family(config=ClipSettings, make=ClipBaseline.load, shapes=lambda settings: bool(settings.baseline.strip()))
GRM = Family(config=GrmSettings, make=_asking(grm.Grm, grm.WORDINGS))
LRM = Family(config=LrmSettings, make=_make_lrm, shapes=lambda settings: "progress" in settings.adapters)
ROBOREWARD = Family(config=RoboRewardSettings, make=_asking(roboreward.RoboReward, roboreward.WORDINGS))
VLAC = Family(config=VlacSettings, make=_asking(vlac.Vlac, vlac.WORDINGS), licence=LICENCES["InternRobotics/VLAC"])
YESNO = Family(config=YesNoSettings, make=_asking(yesno.YesNo, yesno.WORDINGS), shapes=lambda settings: False)

FAMILIES: Registry[Family[Any]] = Registry(plugins.REWARD_MODELS, Family)


def find_family(name: str) -> Family[Any]:
    """Return the family of a name.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    return FAMILIES[name]


def make_reward_model(name: str, settings: BaseModel | Mapping[str, Any]) -> RewardModel:
    """Make a large reward model, ready to be asked.

    Weights are loaded; a server is not spoken to yet.

    Args:
        name: Of the family.
        settings: Of the class that the family names, or what such a class is made from.

    Raises:
        ConfigError: If there is no such family.
        RewardError: If settings do not fit, a package or weights are missing, or a licence is not accepted.
    """
    family = find_family(name)
    if not isinstance(settings, family.config):
        plain = settings.model_dump() if isinstance(settings, BaseModel) else settings
        try:
            settings = family.config.model_validate_json(json.dumps(dict(plain)))
        except (ValidationError, TypeError) as error:
            raise RewardError(f"settings of reward model {name} are wrong: {_told(error)}") from error
    if family.licence is not None:
        _check_alias(name, family.licence, settings)
    return Guarded(family.make(settings))


def _check_alias(name: str, licence: str, settings: Any) -> None:
    """Insist on a yes to the licence of a family's weights where nothing else says which licence these have.

    Raises:
        RewardError: If it is not accepted.
    """
    if settings.server is not None:
        model, known = settings.server.model, licence_of(settings.server.model, None)
    else:
        assert settings.weights is not None
        model = settings.weights.model
        known = licence_of(model, find_folder(model, settings.weights))
    if known == UNKNOWN and settings.accept_license != licence:
        raise RewardError(
            f"licence of {model} is not known here, and the published weights of {name} have {licence}, which must be "
            f'accepted; if your use is allowed, set accept_license: "{licence}"'
        )


def _told(error: ValidationError | TypeError) -> str:
    if isinstance(error, TypeError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else one["msg"]
        for one in error.errors(include_url=False)
    )


def _backend(settings: FamilySettings) -> Backend:
    if settings.weights is not None:
        return InProcess.load(settings.weights, accepted=settings.accept_license)
    server = _server(settings)
    return make_endpoint(server)


def _server(settings: FamilySettings) -> ServerSettings:
    if settings.server is None:
        raise RewardError("weights and server are both missing, one must be given")
    check_licence(settings.server.model, accepted=settings.accept_license)
    return settings.server


def make_endpoint(server: ServerSettings, model: str | None = None) -> Endpoint:
    """Make the way to a model of a server, by the name in its settings or another one.

    Raises:
        RewardError: If the environment lacks the token that they name.
    """
    token = None
    if server.token_env is not None:
        token = os.environ.get(server.token_env, "").strip()
        if not token or not token.isascii() or not token.isprintable():  # its value stays out of the message
            raise RewardError(
                f"environment variable {server.token_env} is empty or no plain text, must hold the token "
                f"of {server.url}"
            )
    return Endpoint(server, model=model or server.model, token=token)
