"""Behaviour cloning of chunks by flow matching, from demonstrations and corrections alike.

Source: Lipman et al., 2023, arXiv:2210.02747; as a policy over chunks: Black et al., 2024, arXiv:2410.24164 (pi0).
Deviations: an MLP on the features of a frozen trunk instead of a transformer; the time is drawn uniformly.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from policies.device import upload
from policies.distributed import ALONE, Ranks
from policies.flow import FlowField, flow_loss, on_line
from policies.flow_bc.config import FlowBCConfig
from policies.flow_bc.policy import FlowPolicy
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch, published_tensors
from policies.networks import StateEncoder
from policies.optimiser import descend, follow, load_adam, make_adam
from policies.precision import fast
from policies.vision import Vision


class FlowBCLearner:
    """The learner of flow-matching behaviour cloning; implements `policies.learner.Learner`."""

    name = "flow_bc"

    def __init__(self, spec: LearnerSpec, config: FlowBCConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        self.ranks = ALONE
        self._spec, self._device = spec, device
        self._rng = torch.Generator().manual_seed(seed)
        self.policy = FlowPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        """Running average of the policy: what acts and is evaluated."""
        self.vision = Vision(spec.trunk, tau=config.actor_tau).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self._optimiser = make_adam(trained, config.learning_rate)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one gradient step on the expert rows of a batch."""
        rows, size = batch.action.shape
        joint = self.ranks.count * rows
        noise = upload(self.ranks.mine(torch.randn(joint, size, generator=self._rng)), self._device)
        time = upload(self.ranks.mine(torch.rand(joint, 1, generator=self._rng)), self._device)
        weight = chunk_weight(batch, self._spec, self.ranks)
        encoder, field = self.policy.encoder, self.policy.field
        with fast(self._device):
            loss = cloning_loss(encoder, field, batch, self.vision.now(batch), weight, noise, time, self.ranks)
        descend(self._optimiser, loss, self.ranks)
        self.vision.follow()
        follow(self.published, self.policy, self.config.actor_tau)
        self.updates += 1
        return {"actor_loss": loss.detach()}

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the published average of the policy, by name."""
        return published_tensors(self.published)

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return the running average of a trained encoder, by name; nothing where it is frozen."""
        return self.vision.published_tensors()

    def state_dict(self) -> dict[str, Any]:
        """Return all state that a resumed learner needs."""
        return {
            "policy": self.policy.state_dict(),
            "published": self.published.state_dict(),
            "vision": self.vision.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "rng": self._rng.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.policy.load_state_dict(state["policy"])
        self.published.load_state_dict(state["published"])
        self.vision.load_state_dict(state["vision"])
        load_adam(self._optimiser, state["optimiser"])
        self._rng.set_state(state["rng"])
        self.updates = state["updates"]


def cloning_loss(
    encoder: StateEncoder,
    field: FlowField,
    batch: TensorBatch,
    features: Tensor,
    weight: Tensor,
    noise: Tensor,
    time: Tensor,
    ranks: Ranks,
) -> Tensor:
    """Return the loss by which a flow is cloned from the chunks of a batch.

    Args:
        encoder: Of the flow.
        field: The flow.
        batch: (B, ...).
        features: Of o, (B, F).
        weight: Of each entry of the chunks, 0 where nothing was shown, (B, C * A).
        noise: Standard normal, (B, C * A).
        time: In [0, 1], (B, 1).
        ranks: The processes over all of whose rows the mean goes.
    """
    velocity = field(encoder(features, batch.proprio), on_line(noise, batch.action, time), time)
    return flow_loss(velocity, noise, batch.action, weight, ranks.mean_count(weight.any(dim=1)))
