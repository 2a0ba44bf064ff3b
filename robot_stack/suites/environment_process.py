"""An environment that steps in a process of its own, so that the one that trains can do something meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from robot_stack.types.errors import RobotError

END_S = 5.0
"""A process that has been asked to end is killed after so long."""
REMEDY = "must run until it is closed; repair it if it fails by itself, and train again"


class EnvironmentProcess(gymnasium.Env[Any, Any]):
    """An environment in a process of its own; a step calls `meanwhile` while that process simulates.

    Observations, rewards and ends are those of the environment; of `info` there are the entries that are numbers,
    truth values, texts or arrays.

    Args:
        make: Makes the environment; called in this process too, to learn the spaces, and closed again there.

    Attributes:
        meanwhile: Called once in each step.
    """

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
        # a new process and not a copy: one that has talked to a GPU cannot be copied
        self._process = AsyncVectorEnv([make], context="spawn", autoreset_mode=AutoresetMode.DISABLED)
        self.observation_space = self._process.single_observation_space
        self.action_space = self._process.single_action_space
        self.meanwhile: Callable[[], None] = lambda: None
        self._has_ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment.

        Raises:
            RobotError: If the environment fails, or its process has ended.
        """
        observations, info = self._asked(lambda: self._process.reset(seed=seed, options=options))
        return _first(observations), _first_info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step there, and call `meanwhile` here until it is made.

        Raises:
            RobotError: If the environment fails, or its process has ended.
        """
        self._asked(lambda: self._process.step_async(np.asarray(action)[None]))
        try:
            self.meanwhile()
        finally:
            told = self._asked(self._process.step_wait)
        observations, reward, terminated, truncated, info = told
        return _first(observations), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _first_info(info)

    def close(self) -> None:
        """End the process, whatever it does just now."""
        for process in self._process.processes:
            process.terminate()
            process.join(timeout=END_S)
            process.kill()
            process.join()
        self._process.closed = self._has_ended = True

    def _asked(self, question: Callable[[], Any]) -> Any:
        if self._has_ended:
            raise RobotError(f"process of the environment has ended, {REMEDY}")
        try:
            return question()
        except (EOFError, ConnectionError) as error:
            self._has_ended = True
            raise RobotError(f"process of the environment has ended, {REMEDY}") from error
        except Exception as error:  # raised by the environment there; its process ends with it
            self._has_ended = True
            raise RobotError(f"environment has failed ({type(error).__name__}: {error}), {REMEDY}") from error


def _first(observations: Any) -> Any:
    """Return what one environment has observed."""
    if isinstance(observations, Mapping):
        return {name: part[0] for name, part in observations.items()}
    return observations[0]


def _first_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the info of one environment; an entry that it gave has a mask beside it, called by `_` and its name."""
    return {name: part[0] for name, part in info.items() if f"_{name}" in info and isinstance(part, np.ndarray)}
