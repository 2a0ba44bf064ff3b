"""Behaviour cloning: the baseline of every report, trained on the demonstrations alone.

Source: Pomerleau, 1989. Huber loss on the squashed mean, which is RLPD's imitation term by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from policies.action_layout import ActionLayout
from policies.bc.policy import BCPolicy
from policies.distributed import ALONE
from policies.imitation import balanced_entries, imitation_loss, labelled_entries
from policies.learner import LearnerSpec, TensorBatch, published_tensors
from policies.optimiser import descend, follow, load_adam, make_adam
from policies.vision import Vision


class ImitationConfig(Protocol):
    """The settings that the imitation learner reads; behaviour cloning and HG-DAgger have them."""

    @property
    def learning_rate(self) -> float:
        """Return Adam's learning rate."""
        ...

    @property
    def hidden(self) -> tuple[int, ...]:
        """Return the widths of the MLP's hidden layers."""
        ...

    @property
    def head(self) -> int:
        """Return the width of each trained head."""
        ...

    @property
    def actor_tau(self) -> float:
        """Return the share by which the published policy follows the trained one; 1 publishes it."""
        ...


class BCLearner:
    """The learner of behaviour cloning; implements `policies.learner.Learner`."""

    name = "bc"

    def __init__(self, spec: LearnerSpec, config: ImitationConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        self.ranks = ALONE
        self._spec = spec
        self._layout = ActionLayout(actions=spec.actions, grippers=spec.grippers)
        self.policy = BCPolicy(spec, head=config.head, hidden=config.hidden).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        """Running average of the policy: what acts and is evaluated."""
        self.vision = Vision(spec.trunk, tau=1.0).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self._optimiser = make_adam(trained, config.learning_rate)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one gradient step on the expert rows of a batch."""
        mean = self.policy.actor.deterministic(self.vision.now(batch), batch.proprio)
        labelled = labelled_entries(batch, self._spec)
        action = batch.action[:, : self._spec.actions]  # one tick, also of a chunk
        weight = balanced_entries(batch, labelled, self._layout, self.ranks)
        loss = imitation_loss(mean, action, weight, batch.imitation, self.ranks)
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
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.policy.load_state_dict(state["policy"])
        self.published.load_state_dict(state["published"])
        self.vision.load_state_dict(state["vision"])
        load_adam(self._optimiser, state["optimiser"])
        self.updates = state["updates"]
