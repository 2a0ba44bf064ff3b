"""Advantage-conditioned cloning: everything that was done is cloned, told apart by whether it did better than expected.

Source: RECAP of pi*0.6, Physical Intelligence, 2025, arXiv:2511.14759. Deviations: a flow of an MLP that the run trains
itself; the value function is trained on the chunk's return and its own value behind it instead of on whole returns,
since an episode that was cut short has none; it is a number instead of a distribution; the threshold follows the share
of good steps update by update instead of being drawn once for a data set; no guidance beyond the condition.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from policies.chunk_learner import ChunkLearner, Draws
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.networks import StateEncoder, mlp
from policies.optimiser import follow, make_adam
from policies.precision import exactly, fast
from policies.recap.config import RecapConfig
from policies.recap.policy import BETTER, NOT_TOLD, WORSE, RecapPolicy
from policies.vision import Seen, Vision

THRESHOLD_STEP = 0.02
"""By how much the threshold moves in an update whose steps are all on one side; an advantage is of the order of .1."""


class Value(nn.Module):
    """A value function of observations."""

    def __init__(self, spec: LearnerSpec, config: RecapConfig) -> None:
        super().__init__()
        self.encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.body = mlp(self.encoder.size, config.hidden)
        self.out = nn.Linear(config.hidden[-1], 1)

    def forward(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return the value of each observation, float32 (B,)."""
        hidden = self.body(self.encoder(features, proprio))
        with exactly(hidden):
            value: Tensor = self.out(hidden.to(self.out.weight.dtype))
        return value[:, 0]


class RecapLearner(ChunkLearner):
    """The learner of advantage-conditioned cloning; implements `policies.learner.Learner`."""

    name = "recap"
    kept = ("policy", "published", "value", "target", "vision")

    def __init__(self, spec: LearnerSpec, config: RecapConfig, *, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.config = config
        self.policy = RecapPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.value = Value(spec, config).to(device)
        self.target = copy.deepcopy(self.value).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.actor_tau).to(device)
        self.threshold = torch.zeros((), device=device)
        """Advantage from which a step of the policy counts as better than expected."""
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self.optimisers = {
            "flow": make_adam(trained, config.learning_rate),
            "value": make_adam(self.value.parameters(), config.learning_rate),
        }

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return (self._draw(torch.rand, rows, 1), *self.flow_draws(rows))

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one update of the value function, of the threshold and of the flow."""
        dropout, noise, time = draws.values
        with fast(self._device):
            seen = self.vision.see(batch)
        advantage, metrics = self._update_value(batch, seen)
        better = self._judge(batch, advantage)
        told = dropout[:, 0] >= self.config.condition_dropout
        good, bad, unknown = (torch.full_like(advantage, each) for each in (BETTER, WORSE, NOT_TOLD))
        worth = torch.where(told, torch.where(better, good, bad), unknown)
        # of what an operator showed nothing else is cloned, and of all other steps all that was done
        shown = replace(batch, expert=_shown(batch))
        weight = torch.where(shown.expert[:, None], chunk_weight(shown, self._spec, self.ranks), batch.label.float())

        def state(features: Tensor, proprio: Tensor) -> Tensor:
            return self.policy.told(features, proprio, worth[:, None])

        metrics["actor_loss"] = self.clone("flow", state, self.policy.field, batch, seen.now, weight, (noise, time))
        self.vision.follow()
        follow(self.published, self.policy, self.config.actor_tau)
        return metrics

    def _update_value(self, batch: TensorBatch, seen: Seen) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one step on the TD error of chunks; returns it as it was before, the advantage (B,)."""
        now = seen.now.detach()
        with torch.no_grad(), fast(self._device):
            wanted = batch.reward + batch.discount * self.target(seen.target, batch.next_proprio)
        with fast(self._device):
            value = self.value(now, batch.proprio)
        loss = (value - wanted).square().mean()
        self.descend("value", loss)
        follow(self.target, self.value, self.config.target_tau)
        return (wanted - value).detach(), {"value_loss": loss.detach(), "value": value.detach().mean()}

    def _judge(self, batch: TensorBatch, advantage: Tensor) -> Tensor:
        """Return which rows count as better than expected, bool (B,): those shown, and those above the threshold."""
        above, shown = advantage > self.threshold, _shown(batch)
        too_many = ((above.float() - self.config.positive_share) * ~shown).mean()
        self.ranks.average([too_many])
        self.threshold.add_(THRESHOLD_STEP * too_many)
        return above | shown

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next update depends on."""
        return {**super().state_dict(), "threshold": self.threshold.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.threshold.copy_(state["threshold"])


def _shown(batch: TensorBatch) -> Tensor:
    """Mark the rows that an operator showed, bool (B,), whichever pool they were drawn from: experts' and corrections.

    In a demonstration that failed nobody was corrected: what stands there as proposed is what was done.
    """
    return batch.expert | (batch.human[:, 0] & (batch.proposed != batch.action).any(dim=1))
