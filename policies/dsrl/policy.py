"""Policies that choose the noise of a flow: of a frozen one within the policy, or of the run's base."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from policies.dsrl.config import DSRLConfig, DSRLOnBaseConfig
from policies.dsrl.steering import SteeringPolicy, make_actor
from policies.flow import FlowField, carry
from policies.learner import LearnerSpec
from policies.networks import StateEncoder
from policies.playback import Playback


class DSRLPolicy(SteeringPolicy):
    """A flow that is steered by its noise; implements `policies.playback.PlaysChunks`.

    A discrete gripper is a number here, read with the usual deadband.

    Attributes:
        encoder, field: The flow.
    """

    def __init__(self, spec: LearnerSpec, config: DSRLConfig) -> None:
        super().__init__(config, config.chunk * spec.actions)
        self.size, self.chunk = config.chunk * spec.actions, config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.replan, join="cut")
        self._steps = config.flow_steps
        self.encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.field = FlowField(self.encoder.size, self.size, hidden=config.hidden)
        self.actor = make_actor(spec, config, self.size)

    def chunks(self, features: Tensor, proprio: Tensor, noise: Tensor) -> Tensor:
        """Return the chunks (B, N) to which the flow carries noise (B, N), without gradient."""
        with torch.no_grad():
            return carry(self.field, self.encoder(features, proprio), noise, self._steps)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A)."""
        return self.chunks(features, proprio, self.choose(features, proprio, rng=rng, deterministic=deterministic))


def sensed_part(spec: LearnerSpec) -> LearnerSpec:
    """Return the sizes of a run without what its base says, which stands at the end of the proprio vector."""
    said = spec.noise + 1 + spec.actions
    return replace(spec, proprio_mean=spec.proprio_mean[:-said], proprio_std=spec.proprio_std[:-said])


class DSRLOnBasePolicy(SteeringPolicy):
    """The run's base, steered by its noise; implements `policies.learner.ChoosesNoise`.

    What acts is what the base proposes; the noise that is chosen beside it is that of the base's next answer.
    """

    def __init__(self, spec: LearnerSpec, config: DSRLOnBaseConfig) -> None:
        sensed = sensed_part(spec)
        super().__init__(config, spec.noise)
        self.actor = make_actor(sensed, config, spec.noise)
        self.chunk = 1
        self._actions, self._sensed = spec.actions, len(sensed.proprio_mean)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return what the base proposes, (B, A)."""
        return proprio[:, -self._actions :]

    def noise(self, features: Tensor, proprio: Tensor, *, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return the noise of the base's next answer, (B, D)."""
        return self.choose(features, proprio[:, : self._sensed], rng=rng, deterministic=deterministic)
