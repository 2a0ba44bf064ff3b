"""Jump-start reinforcement learning: a cloned guide opens each episode and retreats as RLPD gets better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from policies.bc.learner import BCLearner
from policies.distributed import Ranks
from policies.jump_start.config import JumpStartConfig
from policies.jump_start.retreat import Retreat
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.learner import RLPDLearner
from policies.rlpd.snapshot import CriticSnapshot
from robot_stack.types.errors import ConfigError


class JumpStartLearner:
    """The learner of jump-start RL; implements `Learner` and `WatchesEpisodes`; source in `Retreat`.

    Raises:
        ConfigError: If the encoder is trained: the frozen guide would lose its features.
    """

    name = "jump_start"

    def __init__(self, spec: LearnerSpec, config: JumpStartConfig, *, seed: int, device: str = "cpu") -> None:
        if spec.trunk is not None:
            raise ConfigError("encoder is trained end to end, must be frozen under a frozen guide; choose a frozen one")
        self.config = config
        self._guide = BCLearner(spec, config, seed=seed, device=device)
        own = config.model_copy(update={"pretrain_updates": config.pretrain_updates - config.guide_updates})
        self._rlpd = RLPDLearner(spec, own, seed=seed, device=device)
        self._retreat = Retreat(
            steps=config.guide_steps, stages=config.stages, window=config.window, tolerance=config.tolerance
        )

    @property
    def ranks(self) -> Ranks:
        """Return the processes that train this learner together."""
        return self._rlpd.ranks

    @ranks.setter
    def ranks(self, ranks: Ranks) -> None:
        self._rlpd.ranks = self._guide.ranks = ranks

    @property
    def updates(self) -> int:
        """Return the number of updates made, of the guide and of RLPD."""
        return self._guide.updates + self._rlpd.updates

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one update of the guide until it is cloned, and of RLPD from then on; the finished clone acts."""
        if self._guide.updates < self.config.guide_updates:
            loss = self._guide.update(batch)["actor_loss"]
            if self._guide.updates == self.config.guide_updates:
                self._guide.published.load_state_dict(self._guide.policy.state_dict())
            return {"guide_loss": loss}
        return self._rlpd.update(batch) | {"guide_steps": torch.tensor(float(self._retreat.guide_steps))}

    def episode_ended(self, *, success: bool, alone: bool) -> None:
        """Count an ended online episode; the guide may retreat."""
        self._retreat.episode_ended(success and alone)

    def critic_snapshot(self) -> CriticSnapshot:
        """Copy RLPD's critic as it is now."""
        return self._rlpd.critic_snapshot()

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of guide and policy and the guide's ticks, by name."""
        parts = {"guide": self._guide.actor_tensors(), "rlpd": self._rlpd.actor_tensors()}
        tensors = {f"{part}.{name}": tensor for part, of_part in parts.items() for name, tensor in of_part.items()}
        return tensors | {"guide_steps": np.asarray(self._retreat.guide_steps, np.float32)}

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return nothing: the encoder is frozen."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all state that a resumed learner needs."""
        return {
            "guide": self._guide.state_dict(),
            "rlpd": self._rlpd.state_dict(),
            "retreat": self._retreat.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned; with fewer `updates`, those of RLPD that it leaves."""
        self._guide.load_state_dict(state["guide"])
        self._rlpd.load_state_dict(state["rlpd"])
        self._rlpd.updates = state.get("updates", self.updates) - self._guide.updates
        self._retreat.load_state_dict(state["retreat"])
