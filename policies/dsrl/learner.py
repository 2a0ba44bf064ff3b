"""Steering a cloned flow: it is frozen, and reinforcement learning chooses the noise that it starts from.

Source: Wagenmaker et al., 2025, arXiv:2506.15799 (DSRL), section 4.3: a critic of actions learns from all data, also
from what no policy of noise has done; a critic of noise is distilled from it, and the actor goes up that. Deviations:
the flow is cloned here from the demonstrations first; chunks as in arXiv:2507.07969; the minimum of the critics in the
target, no entropy in it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.chunk_learner import ChunkLearner, Draws
from policies.dsrl.config import DSRLConfig
from policies.dsrl.policy import DSRLPolicy
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.networks import Critic, StateEncoder
from policies.optimiser import follow, make_adam
from policies.precision import fast
from policies.rlpd.losses import critic_loss, td_target, temperature_loss
from policies.vision import Vision
from robot_stack.types.errors import ConfigError


class DSRLLearner(ChunkLearner):
    """The learner of the noise of a frozen flow; implements `policies.learner.Learner`.

    Raises:
        ConfigError: If the encoder is trained: the frozen flow would lose its features.
    """

    name = "dsrl"
    kept = ("policy", "published", "critic", "noise_critic", "target")

    def __init__(self, spec: LearnerSpec, config: DSRLConfig, *, seed: int, device: str = "cpu") -> None:
        if spec.trunk is not None:
            raise ConfigError("encoder is trained end to end, must be frozen under a frozen flow; choose a frozen one")
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.config = config
        self.policy = DSRLPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.vision = Vision(None, tau=1.0)

        def critic(members: int) -> Critic:
            encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
            return Critic(encoder, self.policy.size, members=members, hidden=config.hidden).to(device)

        self.critic, self.noise_critic = critic(config.critics), critic(1)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        raw = math.log(math.expm1(config.initial_temperature))
        self.log_temperature = nn.Parameter(torch.tensor(raw, device=device))
        trained: dict[str, list[nn.Parameter]] = {
            "flow": [*self.policy.encoder.parameters(), *self.policy.field.parameters()],
            "critic": list(self.critic.parameters()),
            "noise_critic": list(self.noise_critic.parameters()),
            "actor": list(self.policy.actor.parameters()),
            "temperature": [self.log_temperature],
        }
        self.optimisers = {name: make_adam(parameters, config.learning_rate) for name, parameters in trained.items()}

    @property
    def _phase(self) -> bool:
        """Return whether the flow is being cloned."""
        return self.updates < self.config.base_updates

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return self.flow_draws(rows) if self._phase else tuple(self.noise(rows) for _ in range(3))

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one update of the flow until it is cloned, and of all that steers it from then on."""
        metrics = self._clone(batch, draws) if self._phase else self._steer(batch, draws)
        follow(self.published, self.policy, self.config.actor_tau)
        return metrics

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one update; return detached metrics."""
        metrics = super().update(batch)
        if self.updates == self.config.base_updates:  # from here on both are the frozen flow
            self.published.load_state_dict(self.policy.state_dict())
        return metrics

    def _clone(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        noise, time = draws.values
        weight = chunk_weight(batch, self._spec, self.ranks)
        loss = self.clone("flow", self.policy.encoder, self.policy.field, batch, batch.features, weight, (noise, time))
        return {"flow_loss": loss}

    def _steer(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        policy = self.policy
        next_noise, asked, any_noise = draws.values
        with torch.no_grad(), fast(self._device):
            steered, _ = policy.steer(batch.next_features, batch.next_proprio, next_noise)
            chunk = policy.chunks(batch.next_features, batch.next_proprio, steered)
            everyone = torch.arange(self.config.critics, device=chunk.device)
            next_q = self.target(batch.next_features, batch.next_proprio, chunk)
            target = td_target(batch.reward, batch.discount, next_q, everyone)
        with fast(self._device):
            q = self.critic(batch.features, batch.proprio, batch.action)
        loss = critic_loss(q, target)
        self.descend("critic", loss)
        follow(self.target, self.critic, self.config.target_tau)
        distance = self._distil(batch, any_noise)
        with fast(self._device):
            wanted, log_prob = policy.steer(batch.features, batch.proprio, asked)
            self.noise_critic.requires_grad_(False)
            value = self.noise_critic(batch.features, batch.proprio, wanted)[0]
            self.noise_critic.requires_grad_(True)
        temperature = functional.softplus(self.log_temperature).detach()
        actor_loss = (temperature * log_prob - value).mean()
        self.descend("actor", actor_loss)
        entropy = self.config.target_entropy_per_action * self._size
        self.descend("temperature", temperature_loss(self.log_temperature, log_prob, entropy))
        return {
            "critic_loss": loss.detach(),
            "q": q.detach().mean(),
            "target_q": target.mean(),
            "distil_loss": distance,
            "actor_loss": actor_loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": temperature,
        }

    def _distil(self, batch: TensorBatch, noise: Tensor) -> Tensor:
        """Make one step of the critic of noise towards the value of the chunks that noise is carried to."""
        with torch.no_grad(), fast(self._device):
            chunk = self.policy.chunks(batch.features, batch.proprio, noise)
            wanted = self.critic(batch.features, batch.proprio, chunk).mean(dim=0)
        with fast(self._device):
            got = self.noise_critic(batch.features, batch.proprio, noise)[0]
        loss = (got - wanted).square().mean()
        self.descend("noise_critic", loss)
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next update depends on."""
        return super().state_dict() | {"log_temperature": self.log_temperature.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
