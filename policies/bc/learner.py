"""Behaviour cloning: the baseline of every report, trained on the demonstrations alone.

Source: Pomerleau, 1989. Huber loss on the squashed mean, which is RLPD's imitation term by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from policies.bc.policy import BCPolicy
from policies.distributed import ALONE
from policies.imitation import imitation_loss, labelled_entries
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import load_adam, make_adam
from policies.vision import Vision


class ImitationConfig(Protocol):
    """What the learner reads of its settings."""

    @property
    def learning_rate(self) -> float:
        """Of Adam."""
        ...

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the MLP."""
        ...

    @property
    def head(self) -> int:
        """Width of each trained head."""
        ...


class BCLearner:
    """See `policies.learner.Learner`."""

    name = "bc"

    def __init__(self, spec: LearnerSpec, config: ImitationConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        self.ranks = ALONE
        self._spec = spec
        self.policy = BCPolicy(spec, head=config.head, hidden=config.hidden).to(device)
        self.vision = Vision(spec.trunk, tau=1.0).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self._optimiser = make_adam(trained, config.learning_rate)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """One step on the expert rows of a batch."""
        mean = self.policy.actor.deterministic(self.vision.now(batch), batch.proprio)
        labelled = labelled_entries(batch, self._spec)
        action = batch.action[:, : self._spec.actions]  # one tick, also of a chunk
        loss = imitation_loss(mean, action, labelled, self.ranks.mean_count(labelled.any(dim=1)))
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.ranks.average(p.grad for group in self._optimiser.param_groups for p in group["params"])
        self._optimiser.step()
        self.vision.follow()
        self.updates += 1
        return {"actor_loss": loss.detach()}

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """What the actor process needs, fp16."""
        return {name: tensor.detach().half().cpu().numpy() for name, tensor in self.policy.state_dict().items()}

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """The encoder, fp16, where it is trained."""
        return self.vision.published_tensors()

    def state_dict(self) -> dict[str, Any]:
        """All state."""
        return {
            "policy": self.policy.state_dict(),
            "vision": self.vision.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.policy.load_state_dict(state["policy"])
        self.vision.load_state_dict(state["vision"])
        load_adam(self._optimiser, state["optimiser"])
        self.updates = state["updates"]
