"""Q-chunking: a critic of chunks chooses among those of a cloned flow; or a network of one step learns its choice.

Source: Li, Zhou and Levine, 2025, arXiv:2507.07969, sections 4.2 (QC) and 4.3 (QC-FQL; Park et al., 2025,
arXiv:2502.02538). Deviations: rows of experts are cloned where an operator has shown something, as everywhere here; the
minimum of the critics in the target; LayerNorm in the flow's network too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from policies.chunk_learner import ChunkLearner, Draws
from policies.device import upload
from policies.flow import carry
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.networks import Critic
from policies.optimiser import follow, make_adam
from policies.precision import fast
from policies.qc.config import QCConfig, QCFQLConfig
from policies.qc.policy import QCPolicy, best_of
from policies.rlpd.losses import critic_loss, td_target
from policies.vision import Seen, Vision


class QCLearner(ChunkLearner):
    """The learner of Q-chunking, distilled or not; implements `policies.learner.Learner`."""

    kept = ("policy", "published", "target", "vision")

    def __init__(self, spec: LearnerSpec, config: QCConfig, *, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.name = "qc_fql" if config.distilled else "qc"
        self.config = config
        self.policy = QCPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.target = copy.deepcopy(self.policy.critic).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.target_tau).to(device)
        trained: dict[str, list[nn.Parameter]] = {
            "flow": [*self.policy.encoder.parameters(), *self.policy.field.parameters()],
            "critic": [*self.policy.critic.parameters(), *self.vision.trained_parameters()],
        }
        if self.policy.one_step is not None:
            trained["one_step"] = list(self.policy.one_step.parameters())
        self.optimisers = {name: make_adam(parameters, config.learning_rate) for name, parameters in trained.items()}

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        of_target, of_flow = self.noise(rows * self._target_candidates), self.flow_draws(rows)
        return (of_target, *of_flow, *(() if self.policy.one_step is None else (self.noise(rows),)))

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one update of the critics, of the flow, and of the one-step network where there is one."""
        of_target, noise, time, *of_one_step = draws.values
        with fast(self._device):
            seen = self.vision.see(batch)
        metrics = self._update_critic(batch, seen, of_target)
        known = seen.now.detach()
        metrics |= self._update_flow(batch, known, (noise, time))
        if isinstance(self.config, QCFQLConfig):
            metrics |= self._update_one_step(batch, known, *of_one_step, weight=self.config.distil_weight)
        follow(self.published, self.policy, self.config.actor_tau)
        return metrics

    @property
    def _target_candidates(self) -> int:
        """Return how many chunks the one in the target is taken from."""
        return 1 if self.policy.one_step is not None else self.config.target_candidates

    def _update_critic(self, batch: TensorBatch, seen: Seen, noise: Tensor) -> dict[str, Tensor]:
        """Make one step on the TD error, of the encoder too where that is trained; the target follows."""
        policy, critic = self.policy, self.policy.critic
        with torch.no_grad(), fast(self._device):
            target = chunk_target(policy, self.target, batch, seen, noise)
        with fast(self._device):
            q = critic(seen.now, batch.proprio, batch.action)
        loss = critic_loss(q, target)
        self.descend("critic", loss)
        follow(self.target, critic, self.config.target_tau)
        self.vision.follow()
        return {"critic_loss": loss.detach(), "q": q.detach().mean(), "target_q": target.mean()}

    def _update_flow(self, batch: TensorBatch, features: Tensor, drawn: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Make one step of the flow towards what was done."""
        weight = chunk_weight(batch, self._spec, self.ranks)
        if self.config.clones == "all":
            weight = torch.where(batch.expert[:, None], weight, batch.label.float())
        loss = self.clone("flow", self.policy.encoder, self.policy.field, batch, features, weight, drawn)
        return {"flow_loss": loss}

    def _update_one_step(
        self, batch: TensorBatch, features: Tensor, noise: Tensor, *, weight: float
    ) -> dict[str, Tensor]:
        """Make one step of the one-step network up the critics, held to the flow's chunks of the same noise.

        The distance is that of the chunk before it is clamped: beyond the range the critics have no gradient.
        """
        policy = self.policy
        assert policy.one_step is not None
        with fast(self._device):
            with torch.no_grad():
                state = policy.encoder(features, batch.proprio)
                wanted = policy.chunks(state, noise)
                known = policy.critic.encoder(features, batch.proprio)
            chunk = noise + policy.one_step(state, noise, torch.zeros_like(noise[:, :1]))
            policy.critic.requires_grad_(False)
            q = policy.critic.on_state(known, chunk.clamp(-1.0, 1.0))
            policy.critic.requires_grad_(True)
        distance = (chunk - wanted).square().mean()
        loss = weight * distance - q.mean()
        self.descend("one_step", loss)
        return {"actor_loss": loss.detach(), "distil_loss": distance.detach()}

    def critic_snapshot(self) -> ChunkCriticSnapshot:
        """Copy the critic as it is now, to be asked later about what it has not been trained on."""
        return ChunkCriticSnapshot(self.policy, self.target, self.vision, self._target_candidates)


def chunk_target(policy: QCPolicy, target: Critic, batch: TensorBatch, seen: Seen, noise: Tensor) -> Tensor:
    """Return the Bellman target of whole chunks, (B,): the value of the chunk that the policy would choose at o'.

    Args:
        policy: Chooses by its own critic.
        target: Values the choice, by its minimum.
        batch: Rewards run over a chunk.
        seen: Features of o'.
        noise: M for each row, one after the other, (B * M, N); 1 where the policy is distilled.
    """
    state = policy.encoder(seen.following, batch.next_proprio)
    if policy.one_step is not None:
        chunk = carry(policy.one_step, state, noise, 1)
    else:
        candidates = policy.chunks(state.repeat_interleave(len(noise) // len(state), dim=0), noise)
        chunk = best_of(policy.critic, policy.critic.encoder(seen.following, batch.next_proprio), candidates)
    everyone = torch.arange(target.members, device=noise.device)
    return td_target(batch.reward, batch.discount, target(seen.target, batch.next_proprio, chunk), everyone)


class ChunkCriticSnapshot:
    """A copy of the critic of chunks, with policy and target critic of its TD error; implements `AskedCritic`."""

    values_discrete_grippers = True

    def __init__(self, policy: QCPolicy, target: Critic, vision: Vision, candidates: int) -> None:
        self._candidates = candidates
        self._policy = copy.deepcopy(policy).requires_grad_(False)
        self._target = copy.deepcopy(target).requires_grad_(False)
        self._vision = copy.deepcopy(vision).requires_grad_(False)

    @torch.no_grad()
    def values(self, batch: TensorBatch, actions: Sequence[Tensor]) -> list[Tensor]:
        """Return the mean over the critics of Q(o, a) for each of several actions (B, C * A), each (B,)."""
        critic = self._policy.critic
        state = critic.encoder(self._vision.now(batch), batch.proprio)
        return [critic.on_state(state, action).mean(dim=0) for action in actions]

    @torch.no_grad()
    def targets(self, batch: TensorBatch, rng: torch.Generator) -> Tensor:
        """Return the Bellman target of each row, (B,), as it is trained; `rng` draws the chunks at o'."""
        rows, size = batch.action.shape
        noise = torch.randn(rows * self._candidates, size, generator=rng)
        seen = self._vision.see(batch)
        return chunk_target(self._policy, self._target, batch, seen, upload(noise, batch.reward.device))
