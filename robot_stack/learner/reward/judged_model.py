"""The model that an evaluation is about, by the name that users call it: any that a run could name, or a run's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from reward_models.interface import RewardModel
from reward_models.vlm.registry import make_reward_model
from robot_stack import plugins
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.settings import learning_settings
from robot_stack.types.errors import ConfigError, RewardError

CLASSIFIER = "classifier"
"""The success classifier, which confirms the embedded model's verdict where a run's settings say so."""
EVERY = 5
"""Frames from one question to the next of a large model, as `run.reward.rescore` has it by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What shall be judged.

    Attributes:
        name: Of the model.
        settings: As its `settings:` in a run's file; None where nobody gave any.
        every: Score each n-th frame; None is as in a run.
    """

    name: str
    settings: Mapping[str, Any] | None = None
    every: int | None = None

    @property
    def large(self) -> bool:
        """Return whether it is one of those that score behind a run, and are fitted on nothing."""
        return self.name in plugins.REWARD_MODELS.names


def check_name(name: str) -> None:
    """Check that there is a reward model of a name.

    Raises:
        ConfigError: If there is none; the message lists those that there are.
    """
    legal = sorted({*plugins.REWARD_MODELS.names, *plugins.LIVE_REWARD_MODELS.names, CLASSIFIER})
    if name in legal:
        return
    near = get_close_matches(name, legal, n=1, cutoff=0.6)
    remedy = f"did you mean {near[0]!r}?" if near else "correct it, or name a run whose model is meant"
    raise ConfigError(f"reward model is {name!r}, must be one of {', '.join(legal)}, or a run; {remedy}")


def read_settings(path: Path) -> Mapping[str, Any]:
    """Read the settings of a model from a YAML file.

    Raises:
        ConfigError: If it cannot be read, or is no mapping.
    """
    try:
        found = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        why = " ".join(str(error).split())[:200]
        raise ConfigError(f"settings file is {path}, must be readable YAML ({why})") from error
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"settings file {path} holds a {type(found).__name__}, must be a mapping as under settings: in a run's file"
        )
    return found


def large_model(wanted: Wanted, resolved: ResolvedRun | None) -> RewardModel:
    """Make a large model with the settings that were given, else with those by which the run names it.

    Raises:
        ConfigError: If nobody gives any.
        RewardError: If they do not fit, weights or a package are missing, or a licence is not accepted.
    """
    if wanted.settings is not None:
        return make_reward_model(wanted.name, wanted.settings)
    choice = None if resolved is None else resolved.run.reward.rescore
    if choice is None or choice.name != wanted.name:
        raise ConfigError(
            f"settings of reward model {wanted.name} are missing, must say where it is, as weights or server; add "
            "--settings FILE with what stands under settings: in a run's file"
        )
    assert resolved is not None
    return make_reward_model(wanted.name, learning_settings(resolved).rescore)


def check_views(model: RewardModel, resolved: ResolvedRun, instead: str) -> None:
    """Check that a cell has all cameras that a model must be shown, before anything is recorded to show it.

    Args:
        model: Of any kind.
        resolved: Names the cell.
        instead: What else can be given, in words.

    Raises:
        ConfigError: If it has not.
    """
    there = sorted(camera.name for camera in resolved.spec().cameras)
    if missing := sorted(set(model.capabilities.views) - set(there)):
        raise ConfigError(
            f"cameras of cell {resolved.run.cell} are {there}, must include {missing}, which the model's views name; "
            f"name those in views, or {instead}"
        )


def frames_between(wanted: Wanted, resolved: ResolvedRun | None) -> int:
    """Return the frames from one that is scored to the next, as a run that names the model has it."""
    if wanted.every is not None:
        return wanted.every
    if not wanted.large:
        return 1
    choice = None if resolved is None else resolved.run.reward.rescore
    return EVERY if choice is None or choice.name != wanted.name else choice.every


def check_unset(wanted: Wanted, whose: str) -> None:
    """Raise RewardError if settings were given for a model that is fitted already."""
    if wanted.settings is not None:
        raise RewardError(f"settings of {wanted.name} are given, must not be: {whose} is fitted; leave --settings out")
