"""The acting policy of flow-matching behaviour cloning: noise is carried to a chunk of actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.flow import FlowField, carry, carry_towards
from policies.flow_bc.config import FlowConfig
from policies.learner import LearnerSpec
from policies.networks import StateEncoder
from policies.playback import Playback


class FlowPolicy(nn.Module):
    """A flow over chunks of actions; implements `policies.playback.ContinuesChunks`.

    A discrete gripper is a number here, read with the usual deadband.

    Args:
        spec: Sizes.
        config: Hyperparameters.
        conditions: Entries that `state` adds to the encoded observation.
    """

    def __init__(self, spec: LearnerSpec, config: FlowConfig, *, conditions: int = 0) -> None:
        super().__init__()
        self.chunk = config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.replan, join=config.join)
        self._steps = config.flow_steps
        self.encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.field = FlowField(self.encoder.size + conditions, config.chunk * spec.actions, hidden=config.hidden)

    def state(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return what the flow is told, (B, S + conditions)."""
        return self.encoder(features, proprio)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A); without noise that to which the middle of the noise is carried."""
        state = self.state(features, proprio)
        return carry(self.field, state, self._noise(len(state), rng, deterministic), self._steps)

    def continue_chunk(
        self,
        features: Tensor,
        proprio: Tensor,
        *,
        going_out: Tensor,
        hold: Tensor,
        rng: torch.Generator,
        deterministic: bool,
    ) -> Tensor:
        """Return chunks (B, chunk * A) that continue what is left of the last ones, see `carry_towards`."""
        state = self.state(features, proprio)
        noise = self._noise(len(state), rng, deterministic)
        return carry_towards(self.field, state, noise, self._steps, going_out=going_out, hold=hold)

    def _noise(self, rows: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        if deterministic:
            return torch.zeros(rows, self.field.size, device=rng.device)
        return torch.randn(rows, self.field.size, generator=rng, device=rng.device)
