"""Residual reinforcement learning: learn corrections of a base with RLPD, of a frozen clone or of the run's base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from policies.distributed import Ranks
from policies.imitation import imitation_loss
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import descend, load_adam, make_adam
from policies.residual.config import ResidualConfig, ResidualOnBaseConfig
from policies.residual.policy import ResidualOnBasePolicy, ResidualPolicy
from policies.rlpd.learner import RLPDLearner
from policies.rlpd.snapshot import CriticSnapshot
from robot_stack.types.errors import ConfigError


class ResidualLearner:
    """The learner of residual RL; implements `Learner`; source and deviations in `ResidualPolicy`.

    Raises:
        ConfigError: If the encoder is trained: the frozen base would lose its features.
    """

    name = "residual"

    def __init__(self, spec: LearnerSpec, config: ResidualConfig, *, seed: int, device: str = "cpu") -> None:
        if spec.trunk is not None:
            raise ConfigError("encoder is trained end to end, must be frozen under a frozen base; choose a frozen one")
        torch.manual_seed(seed)
        self.config = config
        self._policy = ResidualPolicy(spec, config).to(device)
        own = config.model_copy(update={"pretrain_updates": config.pretrain_updates - config.base_updates})
        self._rlpd = RLPDLearner(spec, own, seed=seed, device=device, policy=self._policy)
        self._base_updates = 0
        self._base_optimiser = make_adam(self._policy.base.parameters(), config.learning_rate)

    @property
    def ranks(self) -> Ranks:
        """Return the processes that train this learner together."""
        return self._rlpd.ranks

    @ranks.setter
    def ranks(self, ranks: Ranks) -> None:
        self._rlpd.ranks = ranks

    @property
    def updates(self) -> int:
        """Return the number of updates made, of the base and of the correction."""
        return self._base_updates + self._rlpd.updates

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one update of the base until it is cloned, and of RLPD from then on."""
        if self._base_updates >= self.config.base_updates:
            return self._rlpd.update(batch)
        policy = self._policy
        mean = policy.base.deterministic(batch.features, batch.proprio)
        labelled = batch.expert[:, None] & policy.layout.arm(batch.label)
        loss = imitation_loss(mean, policy.layout.arm(batch.action), labelled, batch.imitation, self.ranks)
        descend(self._base_optimiser, loss, self.ranks)
        self._base_updates += 1
        if self._base_updates == self.config.base_updates:
            published = self._rlpd.published
            assert isinstance(published, ResidualPolicy)
            published.base.load_state_dict(policy.base.state_dict())
        return {"base_loss": loss.detach()}

    def critic_snapshot(self) -> CriticSnapshot:
        """Copy RLPD's critic as it is now."""
        return self._rlpd.critic_snapshot()

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of base and correction, by name."""
        return self._rlpd.actor_tensors()

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return nothing: the encoder is frozen."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all state that a resumed learner needs; the base is part of RLPD's policy."""
        return {
            "rlpd": self._rlpd.state_dict(),
            "base_updates": self._base_updates,
            "base_optimiser": self._base_optimiser.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned; with fewer `updates`, those of RLPD that it leaves."""
        self._rlpd.load_state_dict(state["rlpd"])
        self._base_updates = state["base_updates"]
        self._rlpd.updates = state.get("updates", self.updates) - self._base_updates
        load_adam(self._base_optimiser, state["base_optimiser"])


def make_on_base(spec: LearnerSpec, config: ResidualOnBaseConfig, *, seed: int, device: str = "cpu") -> RLPDLearner:
    """Build the learner of a correction on top of the run's base policy: RLPD's, with what acts changed."""
    torch.manual_seed(seed)
    policy = ResidualOnBasePolicy(spec, config)
    learner = RLPDLearner(spec, config, seed=seed, device=device, policy=policy)
    learner.name = "residual_on_base"
    return learner
