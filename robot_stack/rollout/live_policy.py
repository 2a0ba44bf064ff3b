"""A policy that takes newer parameters between two ticks and knows how old they are."""

from __future__ import annotations

import numpy as np

from policies.acting import ActingPolicy
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.help import Insight
from robot_stack.types.interfaces import Clock, ParamsSource
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec


class LivePolicy:
    """A `Policy` on a `ParamsSource`, which has nothing to act with until `refresh` says so.

    Args:
        seeds: Of the noise of each encoder's policy, so that none repeats what another did.

    Attributes:
        refusal: Why the newest parameters were not taken, or "": those at hand stay in use and grow old.
    """

    def __init__(self, spec: Spec, source: ParamsSource, clock: Clock, *, seeds: np.random.Generator) -> None:
        self._spec = spec
        self._source = source
        self._clock = clock
        self._seeds = seeds
        self._policy: ActingPolicy | None = None
        self._unbuilt: Params | None = None
        self._taken_ns = 0
        self.refusal = ""

    def refresh(self) -> bool:
        """Take the newest parameters, if there are any, between two episodes, and build the encoder that they name.

        Returns:
            True once there is something to act with.

        Raises:
            ConfigError, SpecError: If their encoder cannot be had here; what is at hand stays in use.
        """
        self._take()
        if self._unbuilt is not None:
            params, self._unbuilt = self._unbuilt, None
            try:
                self._policy = ActingPolicy(self._spec, params, seed=int(self._seeds.integers(2**31)))
            except (ConfigError, SpecError) as error:
                self.refusal = str(error)
                raise
            self._taken()
        return self._policy is not None

    @property
    def version(self) -> int:
        """Return the version of the parameters in use, 0 for none."""
        return self._policy.version if self._policy is not None else 0

    @property
    def age_s(self) -> float:
        """Return the seconds since the parameters in use were taken."""
        return (self._clock.now_ns() - self._taken_ns) / 1e9

    def begin_episode(self) -> None:
        """Forget what was planned in the last episode."""
        if self._policy is not None:
            self._policy.begin_episode()

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return an action, float32 (A,); NaN without parameters, which the loop does not send."""
        self._take()
        if self._policy is None:
            return np.full(self._spec.action_size, np.nan, np.float32)
        return self._policy.act(observation, deterministic=deterministic, interrupted=interrupted)

    def insight(self) -> Insight | None:
        """Return what the policy says of its newest decision; None without one."""
        return self._policy.insight() if self._policy is not None else None

    def steering(self) -> np.ndarray | None:
        """Return the noise that was chosen for the run's base with the newest action; None where none is chosen."""
        return self._policy.steering() if self._policy is not None else None

    def _take(self) -> None:
        """Take the newest parameters if they are of the encoder in use; to build another takes longer than a tick."""
        params = self._source.latest()
        if params is None:
            return
        if self._policy is None or params.metadata.get("trunk") != self._policy.trunk_id:
            self._unbuilt = params
            self.refusal = f"trunk of params {params.version} is another; they are taken once the episode has ended"
            return
        try:
            self._policy.load(params)
        except SpecError as error:  # in the middle of an episode: the loop must go on
            self.refusal = str(error)
            return
        self._unbuilt = None
        self._taken()

    def _taken(self) -> None:
        self.refusal = ""
        self._taken_ns = self._clock.now_ns()
