"""Makes the environment that a task names, declares its shapes, and puts it behind the face of a cell."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from robot_stack.config.environment import EnvironmentConfig, Environments, RenderConfig
from robot_stack.sensing.crop import crop_and_resize
from robot_stack.suites.gymnasium_cell import STATE, Expert, GymnasiumCell, Judge, spec_of, told_by_info, told_by_reward
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.spec import Spec

Environment = gymnasium.Env[Any, Any]


def declare(config: EnvironmentConfig, rate_hz: float) -> Spec:
    """Return the shapes of the environment that a task names.

    Raises:
        ConfigError: If it cannot be made.
        SpecError: If its spaces do not fit.
    """
    environment = make_environment(config)
    try:
        return spec_of(environment.observation_space, environment.action_space, rate_hz)
    finally:
        environment.close()


def build(config: EnvironmentConfig, spec: Spec) -> GymnasiumCell:
    """Make the environment that a task names, as a cell of that spec, with its expert.

    Raises:
        ConfigError: If it cannot be made, has changed since, or its expert cannot be found.
        SpecError: If its spaces do not fit.
    """
    environment = make_environment(config)
    found = spec_of(environment.observation_space, environment.action_space, spec.rate_hz)
    if found != spec:
        environment.close()
        differ = ", ".join(f"{name} {getattr(found, name)}" for name in ("arms", "cameras", "proprio"))
        raise ConfigError(
            f"environment {config.gymnasium} has other spaces than when the run began, now {differ}; start another run"
        )
    return GymnasiumCell(
        environment,
        expert=_expert(config, environment),
        patience=config.patience,
        success=_judge(config),
        rate_hz=spec.rate_hz,
    )


def make_environment(config: EnvironmentConfig) -> Environment:
    """Make the environment that a task names, with a camera that shows its rendering if that is wanted.

    Raises:
        ConfigError: If its id is not registered, what it needs is not installed, or it does not take the arguments.
    """
    name, arguments = config.gymnasium, _plain(config.kwargs)
    if config.render is not None:
        arguments["render_mode"] = "rgb_array"
    try:
        with _from_here():  # what is registered by a text is imported when it is made
            if config.module is not None:
                import_module(config.module)
            environment: Environment = gymnasium.make(name, **arguments)
    except gymnasium.error.DeprecatedEnv as error:
        raise ConfigError(f"environment {name!r} is an old version ({_words(error)}); correct the id") from error
    except gymnasium.error.UnregisteredEnv as error:  # of its name, its name space or its version
        raise ConfigError(
            f"environment {name!r} is not registered ({_words(error)}); correct the id, or name the module that "
            "registers it: sim: {gymnasium: ..., module: ...}"
        ) from error
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise ConfigError(f"environment {name!r} needs what is not installed ({_words(error)}); install it") from error
    except (gymnasium.error.Error, TypeError, ValueError, AssertionError, LookupError, OSError, RuntimeError) as error:
        raise ConfigError(
            f"environment {name!r} cannot be made with {dict(config.kwargs)} ({_words(error)}); correct sim.kwargs"
        ) from error
    return environment if config.render is None else _Rendered(environment, config.render)


class _Rendered(gymnasium.ObservationWrapper[dict[str, Any], Any, Any]):
    """An environment with its rendering as a camera beside what it shows."""

    def __init__(self, environment: Environment, config: RenderConfig) -> None:
        super().__init__(environment)
        self._config = config
        shown = environment.observation_space
        named = dict(shown.spaces) if isinstance(shown, spaces.Dict) else {STATE: shown}
        if config.name in named:
            raise ConfigError(f"render.name is {config.name!r}, which is in the observation already; choose another")
        shape = (config.height_px, config.width_px, 3)
        self._has_names = isinstance(shown, spaces.Dict)
        self.shown: Any = None
        """What the environment itself showed last, without the picture."""
        self.observation_space = spaces.Dict({**named, config.name: spaces.Box(0, 255, shape, np.uint8)})

    def observation(self, observation: Any) -> dict[str, Any]:
        """Return an observation with the picture of the present moment.

        Raises:
            RobotError: If the environment draws nothing that is a picture, or needs for it what is not installed.
        """
        self.shown = observation
        try:
            picture = self.env.render()
        except (gymnasium.error.Error, ImportError) as error:
            raise RobotError(
                f"environment cannot be drawn ({_words(error)}); install it, or leave out sim.render"
            ) from error
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
            raise RobotError(f"rendering is {_kind(picture)}, must be a uint8 image (H, W, 3); leave sim.render out")
        config = self._config
        small = crop_and_resize(picture, None, config.height_px, config.width_px)
        named = observation if self._has_names else {STATE: observation}
        return {**named, config.name: small}


def _expert(config: EnvironmentConfig, environment: Environment) -> Expert | None:
    """Return the expert of a task, or None.

    Raises:
        ConfigError: If it cannot be imported, or cannot be called.
    """
    if config.expert is None:
        return None
    module, _, name = config.expert.partition(":")
    try:
        with _from_here():
            expert = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"expert {config.expert} cannot be imported ({_words(error)}); correct task.sim.expert, module:function"
        ) from error
    with _from_here():
        expert = expert(environment) if isinstance(expert, type) else expert
    if not callable(expert):
        raise ConfigError(f"expert {config.expert} is {_kind(expert)}, must be a function; correct task.sim.expert")
    found: Expert = expert
    if isinstance(environment, _Rendered):
        return lambda seen: found(environment.shown)
    return found


def _judge(config: EnvironmentConfig) -> Judge:
    if config.success == "info":
        return told_by_info
    return partial(told_by_reward, above=0.0 if config.reward_above is None else config.reward_above)


@contextmanager
def _from_here() -> Iterator[None]:
    """A context in which modules beside the files of the run, in the working directory, can be imported."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _plain(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as YAML's author wrote them: lists are lists again."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kwargs.items()}


def _kind(value: object) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


GYMNASIUM = Environments(declare=declare, build=build)
