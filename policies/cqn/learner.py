"""The coarse-to-fine Q-network: a critic alone, whose best action is played, lifted where an operator has shown one.

Sources: Seo, Uruç and James, 2024, arXiv:2407.07787 (CQN); Seo and Abbeel, 2024, arXiv:2411.12155 (sequences of
actions, CQN-AS). Deviations: docs/algorithms/cqn.md.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from policies.chunk_learner import ChunkLearner, Draws
from policies.cqn import losses
from policies.cqn.config import CQNASConfig, CQNConfig
from policies.cqn.critic import of_bins
from policies.cqn.policy import CQNPolicy
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import follow, make_adam
from policies.precision import fast
from policies.vision import Seen, Vision


class CQNLearner(ChunkLearner):
    """The learner of the coarse-to-fine Q-network; implements `policies.learner.Learner`.

    The running average of the policy is the target network too, as in the paper.
    """

    kept = ("policy", "published", "vision")
    published: CQNPolicy

    def __init__(self, spec: LearnerSpec, config: CQNConfig, *, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.name = "cqn_as" if isinstance(config, CQNASConfig) else "cqn"
        self.config = config
        self.policy = CQNPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.target_tau).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self.optimisers = {"critic": make_adam(trained, config.learning_rate)}

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one step on the TD error and on the order of bins that operators have shown; the average follows."""
        config, critic = self.config, self.policy.critic
        with fast(self._device):
            seen = self.vision.see(batch)
            target = cqn_target(self.policy, self.published, batch, seen)
        with fast(self._device):  # an older torch keeps the casts that were made without gradient
            logits, chosen = critic.along(critic.encoder(seen.now, batch.proprio), batch.action)
        taken = of_bins(logits, chosen)
        td = losses.td_loss(taken, target)
        value = critic.expected(taken)
        metrics = {"critic_loss": td, "q": value.mean(), "target_q": (target * critic.support).sum(dim=-1).mean()}
        loss = config.td_weight * td
        if config.imitation_weight > 0:
            metrics |= self._imitation(batch, logits, taken, value)
            loss = loss + config.imitation_weight * (metrics["dominance_loss"] + metrics["margin_loss"])
        self.descend("critic", loss)
        follow(self.published, self.policy, config.target_tau)
        self.vision.follow()
        return {name: each.detach() for name, each in metrics.items()}

    def _imitation(self, batch: TensorBatch, logits: Tensor, taken: Tensor, value: Tensor) -> dict[str, Tensor]:
        """Return what shown actions lack to be valued above all others, by name."""
        weight = chunk_weight(batch, self._spec, self.ranks)
        count = self.ranks.mean_count(weight.any(dim=1)) * weight.shape[1]
        weight = weight * batch.imitation[:, None]
        all_values = self.policy.critic.expected(logits)
        return {
            "dominance_loss": (losses.dominance_loss(logits, taken) * weight).sum() / count,
            "margin_loss": (losses.margin_loss(all_values, value, self.config.margin) * weight).sum() / count,
        }

    def critic_snapshot(self) -> CQNSnapshot:
        """Copy the critic as it is now, to be asked later about what it has not been trained on."""
        return CQNSnapshot(self.policy, self.published, self.vision)


@torch.no_grad()
def cqn_target(policy: CQNPolicy, average: CQNPolicy, batch: TensorBatch, seen: Seen) -> Tensor:
    """Return the target distribution of each level and entry, (B, L, D, Z).

    Args:
        policy: Chooses the action at o'.
        average: Says how its returns are distributed.
        batch: Reward and discount.
        seen: Features of o'.
    """
    chooser, judge = policy.critic, average.critic
    best = chooser.best(chooser.encoder(seen.following, batch.next_proprio))
    logits, chosen = judge.along(judge.encoder(seen.target, batch.next_proprio), best)
    following = of_bins(logits, chosen).softmax(dim=-1)
    return losses.projected(following, judge.support, batch.reward, batch.discount)


class CQNSnapshot:
    """A copy of the critic, with the average that its targets come from; implements `policies.learner.AskedCritic`."""

    values_discrete_grippers = True

    def __init__(self, policy: CQNPolicy, average: CQNPolicy, vision: Vision) -> None:
        self._policy = copy.deepcopy(policy).requires_grad_(False)
        self._average = copy.deepcopy(average).requires_grad_(False)
        self._vision = copy.deepcopy(vision).requires_grad_(False)

    @torch.no_grad()
    def values(self, batch: TensorBatch, actions: Sequence[Tensor]) -> list[Tensor]:
        """Return Q(o, a), the mean over levels and entries, for each of several actions (B, C * A), each (B,)."""
        critic = self._policy.critic
        state = critic.encoder(self._vision.now(batch), batch.proprio)
        return [critic.expected(of_bins(*critic.along(state, action))).mean(dim=(1, 2)) for action in actions]

    @torch.no_grad()
    def targets(self, batch: TensorBatch, rng: torch.Generator) -> Tensor:
        """Return the mean return that each row is trained towards, (B,); nothing is drawn."""
        target = cqn_target(self._policy, self._average, batch, self._vision.see(batch))
        return (target * self._policy.critic.support).sum(dim=-1).mean(dim=(1, 2))
