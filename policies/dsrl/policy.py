"""A frozen flow over chunks, and a trained actor that chooses the noise which the flow carries to a chunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.dsrl.config import DSRLConfig
from policies.flow import FlowField, carry
from policies.learner import LearnerSpec
from policies.networks import GaussianActor, StateEncoder
from policies.playback import Playback

STD_MIN, STD_MAX = 0.01, 1.0
"""Bounds of the actor's spread, before the squash."""


class DSRLPolicy(nn.Module):
    """A flow that is steered by its noise; implements `policies.playback.PlaysChunks`.

    A discrete gripper is a number here, read with the usual deadband.

    Attributes:
        encoder, field: The flow.
        actor: Chooses the noise, as a share of the largest that may be asked for.
    """

    def __init__(self, spec: LearnerSpec, config: DSRLConfig) -> None:
        super().__init__()
        self.chunk = config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.replan, join="cut")
        self.size = config.chunk * spec.actions
        self._steps, self._bound = config.flow_steps, config.noise_bound

        def encoder() -> StateEncoder:
            return StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)

        self.encoder = encoder()
        self.field = FlowField(self.encoder.size, self.size, hidden=config.hidden)
        self.actor = GaussianActor(encoder(), self.size, hidden=config.hidden, std_min=STD_MIN, std_max=STD_MAX)

    def chunks(self, features: Tensor, proprio: Tensor, noise: Tensor) -> Tensor:
        """Return the chunks (B, N) to which the flow carries noise (B, N), without gradient."""
        with torch.no_grad():
            return carry(self.field, self.encoder(features, proprio), noise, self._steps)

    def steer(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise that the actor asks for, (B, N), and its log probability (B,); `noise` is the actor's own.

        The probability is of the share of the bound, which differs from the noise's by a constant.
        """
        share, log_prob, _ = self.actor.sample(features, proprio, noise)
        return self._bound * share, log_prob

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A)."""
        if deterministic:
            noise = self._bound * self.actor.deterministic(features, proprio)
        else:
            drawn = torch.randn(len(features), self.size, generator=rng, device=rng.device)
            noise, _ = self.steer(features, proprio, drawn)
        return self.chunks(features, proprio, noise)
