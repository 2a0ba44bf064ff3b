"""Steering a cloned flow: it is frozen, and reinforcement learning chooses the noise that it starts from.

Source: Wagenmaker et al., 2025, arXiv:2506.15799 (DSRL), see `policies.dsrl.steering`. Deviation: the flow is cloned
here from the demonstrations first.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from policies.chunk_learner import Draws
from policies.dsrl.config import DSRLConfig
from policies.dsrl.policy import DSRLPolicy
from policies.dsrl.steering import SteeringLearner
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import follow, make_adam
from policies.precision import fast
from robot_stack.types.errors import ConfigError


class DSRLLearner(SteeringLearner):
    """The learner of the noise of a frozen flow; implements `policies.learner.Learner`.

    Raises:
        ConfigError: If the encoder is trained: the frozen flow would lose its features.
    """

    name = "dsrl"
    kept = ("policy", "published", "critic", "noise_critic", "target")
    config: DSRLConfig
    policy: DSRLPolicy

    def __init__(self, spec: LearnerSpec, config: DSRLConfig, *, seed: int, device: str = "cpu") -> None:
        if spec.trunk is not None:
            raise ConfigError("encoder is trained end to end, must be frozen under a frozen flow; choose a frozen one")
        size = config.chunk * spec.actions
        super().__init__(
            spec, spec, config, lambda: DSRLPolicy(spec, config), noise=size, judges=1, seed=seed, device=device
        )
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        flow = [*self.policy.encoder.parameters(), *self.policy.field.parameters()]
        self.optimisers["flow"] = make_adam(flow, config.learning_rate)

    @property
    def _phase(self) -> bool:
        """Return whether the flow is being cloned."""
        return self.updates < self.config.base_updates

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return self.flow_draws(rows) if self._phase else tuple(self.steering_noise(rows) for _ in range(3))

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one update of the flow until it is cloned, and of all that steers it from then on."""
        metrics = self._clone(batch, draws) if self._phase else self._steer(batch, draws.values)
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

    def _next_values(self, batch: TensorBatch, noise: Tensor) -> Tensor:
        steered, _ = self.policy.steer(batch.next_features, batch.next_proprio, noise)
        chunk = self.policy.chunks(batch.next_features, batch.next_proprio, steered)
        values: Tensor = self.target(batch.next_features, batch.next_proprio, chunk)
        return values

    def _distil(self, batch: TensorBatch, rest: tuple[Tensor, ...]) -> Tensor:
        """Make one step of the critic of noise towards the value of the chunks that any noise is carried to."""
        (noise,) = rest
        with torch.no_grad(), fast(self._device):
            chunk = self.policy.chunks(batch.features, batch.proprio, noise)
            wanted = self.critic(batch.features, batch.proprio, chunk).mean(dim=0)
        with fast(self._device):
            got = self.noise_critic(batch.features, batch.proprio, noise)[0]
        loss = (got - wanted).square().mean()
        self.descend("noise_critic", loss)
        return loss.detach()

    def _follow(self) -> None:
        follow(self.target, self.critic, self.config.target_tau)
