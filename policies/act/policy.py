"""The acting policy of the regression of chunks: one network, one chunk, no noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.act.config import ActConfig
from policies.learner import LearnerSpec
from policies.networks import GaussianActor, StateEncoder
from policies.playback import Playback


class ActPolicy(nn.Module):
    """A network that says the next chunk of actions; implements `policies.playback.PlaysChunks`.

    A discrete gripper is a number here, read with the usual deadband.
    """

    def __init__(self, spec: LearnerSpec, config: ActConfig) -> None:
        super().__init__()
        self.chunk = config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.chunk, join=config.join)
        encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.actor = GaussianActor(encoder, config.chunk * spec.actions, hidden=config.hidden)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A); never with noise."""
        return self.actor.deterministic(features, proprio)
