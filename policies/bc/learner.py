"""Behaviour cloning: the baseline of every report, trained on the demonstrations alone.

Source: Pomerleau, 1989. Huber loss on the squashed mean, which is RLPD's imitation term by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from policies.bc.config import BCConfig
from policies.learner import LearnerSpec, TensorBatch
from policies.networks import GaussianActor, StateEncoder
from policies.rlpd.losses import imitation_loss


class BCLearner:
    """See `policies.learner.Learner`."""

    name = "bc"

    def __init__(self, spec: LearnerSpec, config: BCConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        encoder = StateEncoder(
            spec.slices, spec.proprio_mean, spec.proprio_std, head=config.head, proprio_head=config.head
        )
        self.actor = GaussianActor(encoder, spec.actions, hidden=config.hidden).to(device)
        self._optimiser = torch.optim.Adam(self.actor.parameters(), config.learning_rate, fused=True)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """One step on the expert rows of a batch."""
        loss = imitation_loss(self.actor.deterministic(batch.features, batch.proprio), batch.action, batch.expert)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        self.updates += 1
        return {"actor_loss": loss.detach()}

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """What the actor process needs, fp16."""
        return {name: tensor.detach().half().cpu().numpy() for name, tensor in self.actor.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """All state."""
        return {
            "actor": self.actor.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.actor.load_state_dict(state["actor"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.updates = state["updates"]
