"""Behaviour cloning by regression of whole chunks, from demonstrations and corrections alike.

Source: ACT, Zhao et al., 2023, arXiv:2304.13705: chunks of actions and temporal ensembling. Deviations: an MLP on the
features of a trunk instead of a transformer, without its variational encoder; Huber instead of absolute distance, as
in the other imitation terms here.
"""

from __future__ import annotations

import copy

from torch import Tensor

from policies.act.config import ActConfig
from policies.act.policy import ActPolicy
from policies.chunk_learner import ChunkLearner, Draws
from policies.imitation import chunk_weight, imitation_loss
from policies.learner import LearnerSpec, TensorBatch
from policies.optimiser import follow, make_adam
from policies.precision import fast
from policies.vision import Vision


class ActLearner(ChunkLearner):
    """The learner of the regression of chunks; implements `policies.learner.Learner`."""

    name = "act"
    kept = ("policy", "published", "vision")

    def __init__(self, spec: LearnerSpec, config: ActConfig, *, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, chunk=config.chunk, seed=seed, device=device)
        self.config = config
        self.policy = ActPolicy(spec, config).to(device)
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.actor_tau).to(device)
        trained = [*self.policy.parameters(), *self.vision.trained_parameters()]
        self.optimisers = {"actor": make_adam(trained, config.learning_rate)}

    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Make one gradient step on what operators have shown of the chunks of a batch."""
        weight = chunk_weight(batch, self._spec, self.ranks)
        with fast(self._device):
            chunk = self.policy.actor.deterministic(self.vision.now(batch), batch.proprio)
        loss = imitation_loss(chunk, batch.action, weight, batch.imitation, self.ranks)
        self.descend("actor", loss)
        self.vision.follow()
        follow(self.published, self.policy, self.config.actor_tau)
        return {"actor_loss": loss.detach()}
