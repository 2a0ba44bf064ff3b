"""The RLPD learner: one `update(batch)` per call, everything it needs to resume in `state_dict()`."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.learner import LearnerSpec, TensorBatch
from policies.networks import Critic, GaussianActor, StateEncoder
from policies.rlpd import losses
from policies.rlpd.config import RLPDConfig


class RLPDLearner:
    """Actor, critic ensemble, target critics and temperature with their optimisers."""

    name = "rlpd"

    def __init__(self, spec: LearnerSpec, config: RLPDConfig, *, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        self._rng = torch.Generator(device).manual_seed(seed)
        self._subset_rng = torch.Generator().manual_seed(seed)

        def encoder() -> StateEncoder:
            return StateEncoder(
                spec.slices, spec.proprio_mean, spec.proprio_std, head=config.head, proprio_head=config.head
            )

        self.actor = GaussianActor(
            encoder(), spec.actions, hidden=config.hidden, std_min=config.std_min, std_max=config.std_max
        ).to(device)
        self.published = copy.deepcopy(self.actor).requires_grad_(False)
        """Running average of the actor: what acts and is evaluated.."""
        self.critic = Critic(encoder(), spec.actions, members=config.critics, hidden=config.hidden).to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        raw = math.log(math.expm1(config.initial_temperature))
        self.log_temperature = nn.Parameter(torch.tensor(raw, device=device))
        self._target_entropy = config.target_entropy_per_action * spec.actions
        self._optimisers = {
            "actor": torch.optim.Adam(self.actor.parameters(), config.learning_rate, fused=True),
            "critic": torch.optim.Adam(self.critic.parameters(), config.learning_rate, fused=True),
            "temperature": torch.optim.Adam([self.log_temperature], config.learning_rate, fused=True),
        }

    @property
    def temperature(self) -> Tensor:
        """α, detached."""
        return functional.softplus(self.log_temperature).detach()

    @property
    def bc_weight(self) -> float:
        """Weight of the imitation term now: linear from `bc_weight` down to its floor."""
        config = self.config
        left = max(0.0, 1.0 - self.updates / config.bc_decay_updates)
        return config.bc_weight * max(left, config.bc_floor)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """One critic update, and an actor update every `critic_actor_ratio` calls. Returns detached metrics."""
        metrics = self._update_critic(batch)
        self.updates += 1
        if self.updates % self.config.critic_actor_ratio == 0:
            metrics |= self._update_actor(batch)
        return metrics

    def _update_critic(self, batch: TensorBatch) -> dict[str, Tensor]:
        with torch.no_grad():
            next_action, _, _ = self.actor.sample(batch.next_features, batch.next_proprio, self._rng)
            next_q = self.target(batch.next_features, batch.next_proprio, next_action)
            target = losses.td_target(
                batch.reward, batch.discount, next_q, subset=self.config.critic_subset, rng=self._subset_rng
            )
        q = self.critic(batch.features, batch.proprio, batch.action)
        loss = losses.critic_loss(q, target)
        self._step("critic", loss)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.critic.parameters()), self.config.target_tau)
        return {"critic_loss": loss.detach(), "q": q.detach().mean(), "target_q": target.mean()}

    def _update_actor(self, batch: TensorBatch) -> dict[str, Tensor]:
        action, log_prob, mean = self.actor.sample(batch.features, batch.proprio, self._rng)
        with torch.no_grad():
            state = self.critic.encoder(batch.features, batch.proprio)
        self.critic.requires_grad_(False)
        q = self.critic.on_state(state, action)
        self.critic.requires_grad_(True)
        loss = losses.actor_loss(q, log_prob, self.temperature)
        weight = self.bc_weight
        if weight > 0:
            loss = loss + weight * losses.imitation_loss(mean, batch.action, batch.expert)
        self._step("actor", loss)
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.published.parameters()), list(self.actor.parameters()), self.config.actor_tau
            )
        temperature_loss = losses.temperature_loss(self.log_temperature, log_prob, self._target_entropy)
        self._step("temperature", temperature_loss)
        return {
            "actor_loss": loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": self.temperature,
        }

    def _step(self, name: str, loss: Tensor) -> None:
        optimiser = self._optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """What the actor process needs, fp16."""
        return {name: tensor.detach().half().cpu().numpy() for name, tensor in self.published.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next update depends on."""
        return {
            "actor": self.actor.state_dict(),
            "published": self.published.state_dict(),
            "critic": self.critic.state_dict(),
            "target": self.target.state_dict(),
            "log_temperature": self.log_temperature.detach(),
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self._optimisers.items()},
            "rng": self._rng.get_state(),
            "subset_rng": self._subset_rng.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.actor.load_state_dict(state["actor"])
        self.published.load_state_dict(state["published"])
        self.critic.load_state_dict(state["critic"])
        self.target.load_state_dict(state["target"])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        for name, optimiser in self._optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self._rng.set_state(state["rng"])
        self._subset_rng.set_state(state["subset_rng"])
        self.updates = state["updates"]
