"""The acting policy of the coarse-to-fine Q-network: what its critic values most."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.cqn.config import CQNConfig
from policies.cqn.critic import CoarseToFineCritic
from policies.exploration import standard_normal
from policies.learner import LearnerSpec
from policies.networks import StateEncoder
from policies.playback import Playback


class CQNPolicy(nn.Module):
    """A critic that is asked for its best action; implements `policies.playback.PlaysChunks`.

    A discrete gripper is a number here, read with the usual deadband; its entry gets no noise.
    """

    def __init__(self, spec: LearnerSpec, config: CQNConfig) -> None:
        super().__init__()
        self.loudness: Tensor
        self.chunk = config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.chunk, join=config.join)
        self._size = config.chunk * spec.actions
        encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.critic = CoarseToFineCritic(
            encoder,
            self._size,
            hidden=config.hidden,
            levels=config.levels,
            bins=config.bins,
            atoms=config.atoms,
            value_range=(config.value_min, config.value_max),
        )
        loud = torch.tensor([0.0 if entry in spec.grippers else config.noise for entry in range(spec.actions)])
        self.register_buffer("loudness", loud.repeat(config.chunk))

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A): the best by the critic, with noise unless it is deterministic."""
        best = self.critic.best(self.critic.encoder(features, proprio))
        if deterministic:
            return best
        return (best + self.loudness * standard_normal(len(best), self._size, rng)).clamp(-1.0, 1.0)
