"""The registry of algorithms by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.bc.policy import BCPolicy
from policies.cal_ql import learner as cal_ql
from policies.cal_ql.config import CalQLConfig
from policies.hg_dagger import learner as hg_dagger
from policies.hg_dagger.config import HGDAggerConfig
from policies.jump_start.config import JumpStartConfig
from policies.jump_start.learner import JumpStartLearner
from policies.jump_start.policy import JumpStartPolicy
from policies.residual.config import ResidualConfig
from policies.residual.learner import ResidualLearner
from policies.residual.policy import ResidualPolicy
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from policies.rlpd.policy import RLPDPolicy
from robot_stack.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A registered algorithm, as `algorithm: {name: ...}` names it.

    Attributes:
        config: Model of its settings.
        learner: Called as learner(spec, settings, seed=, device=), gives a `policies.learner.Learner`.
        policy: Called as policy(spec, settings), gives the `policies.learner.ActingNetwork` of its parameters.
    """

    config: type[BaseModel]
    learner: Callable[..., Any]
    policy: Callable[..., Any]


def _imitation_policy(spec: Any, config: Any) -> BCPolicy:
    return BCPolicy(spec, head=config.head, hidden=config.hidden)


ALGORITHMS: Mapping[str, Algorithm] = {
    "rlpd": Algorithm(config=RLPDConfig, learner=RLPDLearner, policy=RLPDPolicy),
    "bc": Algorithm(config=BCConfig, learner=BCLearner, policy=_imitation_policy),
    "hg_dagger": Algorithm(config=HGDAggerConfig, learner=hg_dagger.make_learner, policy=_imitation_policy),
    "residual": Algorithm(config=ResidualConfig, learner=ResidualLearner, policy=ResidualPolicy),
    "cal_ql": Algorithm(config=CalQLConfig, learner=cal_ql.make_learner, policy=RLPDPolicy),
    "jump_start": Algorithm(config=JumpStartConfig, learner=JumpStartLearner, policy=JumpStartPolicy),
}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of a name.

    Raises:
        ConfigError: If there is none.
    """
    if name not in ALGORITHMS:
        raise ConfigError(f"algorithm is {name!r}, must be one of {sorted(ALGORITHMS)}")
    return ALGORITHMS[name]
