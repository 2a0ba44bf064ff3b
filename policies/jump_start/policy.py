"""The acting policy of jump-start RL: a guide for the first ticks of an episode, the learned policy after them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.bc.policy import BCPolicy
from policies.jump_start.config import JumpStartConfig
from policies.learner import LearnerSpec
from policies.rlpd.policy import RLPDPolicy


class JumpStartPolicy(nn.Module):
    """A guide and RLPD's policy as one acting network; implements `policies.learner.ActingNetwork`."""

    def __init__(self, spec: LearnerSpec, config: JumpStartConfig) -> None:
        super().__init__()
        self.guide_steps: Tensor
        self.guide = BCPolicy(spec, head=config.head, hidden=config.hidden)
        self.rlpd = RLPDPolicy(spec, config)
        self.chunk = config.chunk
        self.register_buffer("guide_steps", torch.tensor(float(config.guide_steps)))

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return the guide's action, repeated over a chunk, during its ticks, and RLPD's after them."""
        if tick >= self.guide_steps:
            return self.rlpd.act(features, proprio, tick=tick, rng=rng, deterministic=deterministic)
        action = self.guide.act(features, proprio, tick=tick, rng=rng, deterministic=deterministic)
        return action.repeat(1, self.chunk)

    def samples(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator) -> Tensor:
        """Draw actions of whoever decides at this tick, see `ExploresSmoothly`; the guide's are all the same."""
        if tick >= self.guide_steps:
            return self.rlpd.samples(features, proprio, tick=tick, rng=rng)
        return self.act(features, proprio, tick=tick, rng=rng, deterministic=False)
