"""What the learners of noise share: critics of actions, critics of noise that are distilled from them, and an actor.

Source: Wagenmaker et al., 2025, arXiv:2506.15799 (DSRL), section 4.3: a critic of actions learns from all data, also
from what no policy of noise has done; a critic of noise is distilled from it, and the actor goes up that. Deviations:
chunks as in arXiv:2507.07969; the minimum of the critics in the target, no entropy in it.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.chunk_learner import ChunkLearner
from policies.dsrl.config import SteeringConfig
from policies.learner import LearnerSpec, TensorBatch
from policies.networks import Critic, GaussianActor, StateEncoder
from policies.optimiser import make_adam
from policies.precision import fast
from policies.rlpd.losses import critic_loss, td_target, temperature_loss
from policies.vision import Vision

STD_MIN, STD_MAX = 0.01, 1.0
"""Bounds of the actor's spread, before the squash."""


def make_actor(spec: LearnerSpec, config: SteeringConfig, noise: int) -> GaussianActor:
    """Build an actor that chooses D numbers of noise by what a spec says can be seen."""
    encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
    return GaussianActor(encoder, noise, hidden=config.hidden, std_min=STD_MIN, std_max=STD_MAX)


class SteeringPolicy(nn.Module):
    """A policy that chooses noise; what the noise becomes is its heirs' affair.

    Args:
        config: Hyperparameters.
        noise: D, numbers of the noise.

    Attributes:
        actor: Chooses the noise, as a share of the largest that may be asked for; its heirs build it.
    """

    actor: GaussianActor

    def __init__(self, config: SteeringConfig, noise: int) -> None:
        super().__init__()
        self._bound, self._noise_size = config.noise_bound, noise

    def steer(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise that the actor asks for, (B, D), and its log probability (B,); `noise` is the actor's own.

        The probability is of the share of the bound, which differs from the noise's by a constant.
        """
        share, log_prob, _ = self.actor.sample(features, proprio, noise)
        return self._bound * share, log_prob

    def choose(self, features: Tensor, proprio: Tensor, *, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return the noise to act with, (B, D)."""
        if deterministic:
            return self._bound * self.actor.deterministic(features, proprio)
        drawn = torch.randn(len(features), self._noise_size, generator=rng, device=rng.device)
        return self.steer(features, proprio, drawn)[0]


class SteeringLearner(ChunkLearner):
    """The learner of noise, whatever it is the noise of.

    Args:
        spec: Sizes of the run.
        state: Sizes of what critics and actor see.
        config: Hyperparameters.
        make_policy: Builds what acts.
        noise: D, numbers of the noise.
        judges: Critics of noise.
        seed: Of its draws.
        device: Where it trains.
    """

    config: SteeringConfig
    policy: SteeringPolicy

    def __init__(
        self,
        spec: LearnerSpec,
        state: LearnerSpec,
        config: SteeringConfig,
        make_policy: Callable[[], SteeringPolicy],
        *,
        noise: int,
        judges: int,
        seed: int,
        device: str,
    ) -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.config, self.policy = config, make_policy().to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.vision = Vision(None, tau=1.0)
        self._noise_size = noise

        def critic(actions: int, members: int) -> Critic:
            encoder = StateEncoder(state.parts, state.proprio_mean, state.proprio_std, head=config.head)
            return Critic(encoder, actions, members=members, hidden=config.hidden).to(device)

        self.critic, self.noise_critic = critic(self._size, config.critics), critic(noise, judges)
        raw = math.log(math.expm1(config.initial_temperature))
        self.log_temperature = nn.Parameter(torch.tensor(raw, device=device))
        trained: dict[str, list[nn.Parameter]] = {
            "critic": list(self.critic.parameters()),
            "noise_critic": list(self.noise_critic.parameters()),
            "actor": list(self.policy.actor.parameters()),
            "temperature": [self.log_temperature],
        }
        self.optimisers = {name: make_adam(parameters, config.learning_rate) for name, parameters in trained.items()}

    def steering_noise(self, rows: int) -> Tensor:
        """Draw standard normal noise, (rows, D)."""
        return self._draw(torch.randn, rows, self._noise_size)

    @abstractmethod
    def _next_values(self, batch: TensorBatch, noise: Tensor) -> Tensor:
        """Return what the averaged critics expect at o', (E, B); `noise` (B, D) is the actor's own."""

    @abstractmethod
    def _distil(self, batch: TensorBatch, rest: tuple[Tensor, ...]) -> Tensor:
        """Make one step of the critics of noise towards the value of what noise becomes; returns the loss, detached."""

    @abstractmethod
    def _follow(self) -> None:
        """Let what is averaged for the targets follow."""

    def _state(self, proprio: Tensor) -> Tensor:
        """Return the proprio that critics and actor see."""
        return proprio

    def _steer(self, batch: TensorBatch, draws: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Make one update of critics, actor and temperature; the first two draws are the actor's, at o' and o."""
        next_noise, own, *rest = draws
        state = self._state(batch.proprio)
        with torch.no_grad(), fast(self._device):
            everyone = torch.arange(self.config.critics, device=batch.reward.device)
            target = td_target(batch.reward, batch.discount, self._next_values(batch, next_noise), everyone)
        with fast(self._device):
            q = self.critic(batch.features, state, batch.action)
        loss = critic_loss(q, target)
        self.descend("critic", loss)
        distance = self._distil(batch, tuple(rest))
        self._follow()
        with fast(self._device):
            wanted, log_prob = self.policy.steer(batch.features, state, own)
            self.noise_critic.requires_grad_(False)
            value = self.noise_critic(batch.features, state, wanted).mean(dim=0)
            self.noise_critic.requires_grad_(True)
        temperature = functional.softplus(self.log_temperature).detach()
        actor_loss = (temperature * log_prob - value).mean()
        self.descend("actor", actor_loss)
        entropy = self.config.target_entropy_per_action * self._noise_size
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

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next update depends on."""
        return super().state_dict() | {"log_temperature": self.log_temperature.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
