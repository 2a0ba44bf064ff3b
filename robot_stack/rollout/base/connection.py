"""The connection to a base policy, whatever it runs in."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np

from robot_stack.rollout.base.mapping import Question, Told
from robot_stack.types.errors import ConfigError


class Connection(Protocol):
    """A connection to a base policy; one question at a time, from one thread."""

    def open(self) -> Told:
        """Connect, and return what the base says of itself; called again after a failure.

        Raises:
            RobotError: If nobody answers.
            SpecError: If what answers is no base.
        """
        ...

    def ask(self, question: Question) -> np.ndarray:
        """Return a chunk of actions in the base's terms, (T, N).

        Raises:
            RobotError: If no answer comes in time.
            SpecError: If the answer is none.
        """
        ...

    def close(self) -> None:
        """Let go of the base, and end its process where it is of this run."""
        ...


def needed(name: str) -> Any:
    """Import a package that only base policies need.

    Raises:
        ConfigError: If it cannot be imported, with what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"base policies behind a server need the package {name}, which cannot be imported here ({error}); "
            "pip install 'robot-stack[base]' -c constraints.txt"
        ) from error
