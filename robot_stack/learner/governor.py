"""A governor that holds the ratio of updates to environment steps, whatever the hardware is capable of."""

from __future__ import annotations


class Governor:
    """A budget of updates: `pretrain` at once, then `utd` for each online environment step.

    A fast GPU waits for data instead of overfitting what little there is; a slow CPU is told by how much it lags.
    """

    def __init__(self, *, utd: float, pretrain: int) -> None:
        self._utd = utd
        self._pretrain = pretrain

    def allowed(self, env_steps: int) -> int:
        """Return how many updates may have been done once there are `env_steps` online steps."""
        return self._pretrain + int(self._utd * env_steps)

    def may_update(self, updates: int, env_steps: int) -> bool:
        """Return True while the learner is below its budget."""
        return updates < self.allowed(env_steps)
