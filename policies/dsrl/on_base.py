"""Steering a served base: reinforcement learning chooses the noise of a policy that only its server can evaluate.

Source: Wagenmaker et al., 2025, arXiv:2506.15799 (DSRL), see `policies.dsrl.steering`; one noise for all steps of a
chunk as in the authors' runs on pi0 (repository ajwagen/dsrl_pi0). Deviations: the base cannot be asked about other
noise afterwards, so the critics of noise are distilled at the noise that it was asked with and the chunk that it
answered, which are recorded, also while an operator corrects it; the target is their value at the actor's noise, not
that of the chunk which this noise would become, also at frames at which none was recorded.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from policies.chunk_learner import Draws
from policies.dsrl.config import DSRLOnBaseConfig
from policies.dsrl.policy import DSRLOnBasePolicy, sensed_part
from policies.dsrl.steering import SteeringLearner
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import follow
from policies.precision import fast
from robot_stack.types.errors import ConfigError


class DSRLOnBaseLearner(SteeringLearner):
    """The learner of the noise of the run's base; implements `policies.learner.Learner`.

    Raises:
        ConfigError: If the base's noise is not chosen here, or the encoder is trained end to end.
    """

    name = "dsrl_on_base"
    kept = ("policy", "published", "critic", "noise_critic", "target")

    def __init__(self, spec: LearnerSpec, config: DSRLOnBaseConfig, *, seed: int, device: str = "cpu") -> None:
        if spec.trunk is not None:
            raise ConfigError("encoder is trained end to end, must be frozen beside a base; choose a frozen one")
        if not spec.noise:
            raise ConfigError("base draws its own noise, must let it be chosen to be steered; set base.noise")
        sensed = sensed_part(spec)
        self._sensed = len(sensed.proprio_mean)
        super().__init__(
            spec,
            sensed,
            config,
            lambda: DSRLOnBasePolicy(spec, config),
            noise=spec.noise,
            judges=config.critics,
            seed=seed,
            device=device,
        )
        self.target = copy.deepcopy(self.noise_critic).requires_grad_(False)

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return self.steering_noise(rows), self.steering_noise(rows)

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        metrics = self._steer(batch, draws.values)
        follow(self.published, self.policy, self.config.actor_tau)
        return {**metrics, "noise_known": self._known(batch).float().mean()}

    def _state(self, proprio: Tensor) -> Tensor:
        return proprio[:, : self._sensed]

    def _next_values(self, batch: TensorBatch, noise: Tensor) -> Tensor:
        after = self._state(batch.next_proprio)
        steered, _ = self.policy.steer(batch.next_features, after, noise)
        values: Tensor = self.target(batch.next_features, after, steered)
        return values

    def _distil(self, batch: TensorBatch, rest: tuple[Tensor, ...]) -> Tensor:
        """Make one step of the critics of noise towards the value of what the base made of the recorded noise."""
        state, known = self._state(batch.proprio), self._known(batch)
        noise = batch.proprio[:, self._sensed : self._sensed + self._noise_size]
        with torch.no_grad(), fast(self._device):
            wanted = self.critic(batch.features, state, batch.proposed)
        with fast(self._device):
            got = self.noise_critic(batch.features, state, noise)
        loss = ((got - wanted).square().mean(dim=0) * known).sum() / self.ranks.mean_count(known)
        self.descend("noise_critic", loss)
        return loss.detach()

    def _follow(self) -> None:
        follow(self.target, self.noise_critic, self.config.target_tau)

    def _known(self, batch: TensorBatch) -> Tensor:
        """Return which rows have, for all of their ticks, what the base made of the noise at o, bool (B,).

        One chunk must have played in all ticks of a row, which the counts at o and o' tell. In each tick either the
        policy acted, or an operator corrected it with a motion that says something of each entry, so that the proposal
        is known as a whole. In a demonstration nobody proposed anything: what stands there as proposed is what the
        operator did. Ticks past the end of a task ask for nothing.
        """
        rows, chunk = batch.human.shape
        corrected = (batch.proposed != batch.action).view(rows, chunk, -1).any(dim=2)
        labelled = batch.label.view(rows, chunk, -1)
        over = (batch.discount == 0)[:, None] & ~batch.human & ~labelled.any(dim=2)
        whole = labelled.all(dim=2) & (~batch.human | corrected)
        place = self._sensed + self._noise_size
        played = batch.proprio[:, place].clamp_min(0) + (~over).sum(dim=1)
        one_chunk = (batch.next_proprio[:, place].abs() - played).abs() < 0.5
        return one_chunk & (whole | over).all(dim=1)
