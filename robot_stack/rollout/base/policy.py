"""The base policy of a run as a policy of its own: what it proposes is what is done."""

from __future__ import annotations

import numpy as np

from policies.acting import ActingPolicy
from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import BASE, Spec


class BasePolicy:
    """A policy that does what the run's base policy proposes; implements `Policy`.

    The proposal stands in each observation, see `CellWithBase`; nothing is planned here.

    Args:
        spec: Of the run.

    Raises:
        SpecError: If the run has no base policy.
    """

    version = 0
    age_s = 0.0

    def __init__(self, spec: Spec) -> None:
        self._entries = spec.part(BASE)

    def begin_episode(self) -> None:
        """Do nothing: the cell tells the base."""

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return the proposal of this tick."""
        return observation.proprio[self._entries]


def policy_of(resolved: ResolvedRun, params: Params | None, *, seed: int) -> Policy:
    """Return the policy of saved parameters, or, where there are none, the run's base by itself.

    Raises:
        ConfigError, SpecError: If the parameters do not fit, or the run has no base policy.
    """
    return BasePolicy(resolved.spec()) if params is None else ActingPolicy(resolved.spec(), params, seed=seed)
