"""Algorithms by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.learner import Learner
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """The model of an algorithm's settings and its learner, called as learner(spec, settings, seed=, device=)."""

    config: type[BaseModel]
    learner: Callable[..., Any]


ALGORITHMS: Mapping[str, Algorithm] = {
    "rlpd": Algorithm(config=RLPDConfig, learner=RLPDLearner),
    "bc": Algorithm(config=BCConfig, learner=BCLearner),
}


def find_algorithm(name: str) -> Algorithm:
    """The algorithm of that name.

    Raises:
        ConfigError: If there is none.
    """
    if name not in ALGORITHMS:
        raise ConfigError(f"algorithm is {name!r}, must be one of {sorted(ALGORITHMS)}")
    return ALGORITHMS[name]


__all__ = ["ALGORITHMS", "Algorithm", "Learner", "find_algorithm"]
