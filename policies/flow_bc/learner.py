"""Behaviour cloning of chunks by flow matching, from demonstrations and corrections alike.

Source: Lipman et al., 2023, arXiv:2210.02747; as a policy over chunks: Black et al., 2024, arXiv:2410.24164 (pi0).
Deviations: an MLP on the features of a frozen trunk instead of a transformer; the time is drawn uniformly.
"""

from __future__ import annotations

import copy

from torch import Tensor

from policies.chunk_learner import ChunkLearner, Draws
from policies.flow_bc.config import FlowBCConfig
from policies.flow_bc.policy import FlowPolicy
from policies.imitation import chunk_weight
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import follow, make_adam
from policies.vision import Vision


class FlowBCLearner(ChunkLearner):
    """The learner of flow-matching behaviour cloning; implements `policies.learner.Learner`."""

    name = "flow_bc"
    kept = ("policy", "published", "vision")

    def __init__(self, spec: LearnerSpec, config: FlowBCConfig, *, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.config = config
        self.policy = FlowPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.actor_tau).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self.optimisers = {"flow": make_adam(trained, config.learning_rate)}

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return self.flow_draws(rows)

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one gradient step on the expert rows of a batch."""
        noise, time = draws.values
        weight, features = chunk_weight(batch, self._spec, self.ranks), self.vision.now(batch)
        loss = self.clone("flow", self.policy.encoder, self.policy.field, batch, features, weight, (noise, time))
        self.vision.follow()
        follow(self.published, self.policy, self.config.actor_tau)
        return {"actor_loss": loss}
