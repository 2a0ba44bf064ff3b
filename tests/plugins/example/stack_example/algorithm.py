"""Behaviour cloning with a linear policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from policies.builders import Builders
from policies.distributed import ALONE
from policies.learner import LearnerSpec, TensorBatch
from policies.registry import Algorithm
from policies.settings import Sampling


class LinearConfig(BaseModel):
    """Hyperparameters, and what the update loop reads of any algorithm."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(64, ge=2)
    pretrain_updates: int = Field(500, ge=1)
    learning_rate: float = Field(1e-2, gt=0)
    utd: float = 0.0
    shaping_weight: float = 0.0

    @property
    def sampling(self) -> Sampling:
        """Return a sampling of demonstrations only."""
        return Sampling(expert_fraction=1.0)


class LinearPolicy(nn.Module):
    """A linear map of features and proprio to an action; implements `ActingNetwork`."""

    chunk = 1

    def __init__(self, spec: LearnerSpec, config: LinearConfig) -> None:
        super().__init__()
        self.proprio_mean: Tensor
        self.register_buffer("proprio_mean", spec.proprio_mean)
        inputs = sum(part.size for part in spec.parts) + len(spec.proprio_mean)
        self.linear = nn.Linear(inputs, spec.actions)

    def forward(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return actions (B, A) in [-1, 1]."""
        return torch.tanh(self.linear(torch.cat([features, proprio - self.proprio_mean], dim=1)))

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return actions (B, A), always without noise."""
        return self(features, proprio)


class LinearLearner:
    """The learner; implements `Learner`."""

    name = "example_linear"

    def __init__(self, spec: LearnerSpec, config: LinearConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config, self.updates, self.ranks = config, 0, ALONE
        self.policy = LinearPolicy(spec, config).to(device)
        self._optimiser = torch.optim.Adam(self.policy.parameters(), config.learning_rate)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one gradient step on the expert rows of a batch."""
        error = (self.policy(batch.features, batch.proprio) - batch.action)[batch.expert]
        loss = error.square().mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.ranks.average(parameter.grad for parameter in self.policy.parameters())
        self._optimiser.step()
        self.updates += 1
        return {"loss": loss.detach()}

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return nothing: the encoder is frozen."""
        return {}

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the policy's weights, fp16, by name."""
        return {name: tensor.detach().half().cpu().numpy() for name, tensor in self.policy.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Return all state that a resume needs."""
        return {
            "policy": self.policy.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.policy.load_state_dict(state["policy"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.updates = state["updates"]


ALGORITHM = Algorithm(config=LinearConfig, builders=lambda: Builders(learner=LinearLearner, policy=LinearPolicy))
