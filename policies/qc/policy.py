"""The acting policy of Q-chunking: the best of several chunks of a flow, or the chunk of a network of one step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.flow import FlowField, carry, carry_towards
from policies.learner import LearnerSpec
from policies.networks import Critic, StateEncoder
from policies.playback import Playback
from policies.qc.config import QCConfig


class QCPolicy(nn.Module):
    """A flow over chunks with a critic of chunks; implements `policies.playback.ContinuesChunks`.

    A discrete gripper is a number here, read with the usual deadband.

    Attributes:
        field: The flow that is cloned from what was done.
        critic: Values chunks; has an encoder of its own.
        one_step: Carries noise to a chunk at once, where the policy is distilled; else None.
    """

    def __init__(self, spec: LearnerSpec, config: QCConfig) -> None:
        super().__init__()
        self.chunk = config.chunk
        self.playback = Playback(chunk=config.chunk, replan=config.replan, join=config.join)
        self._steps, self._candidates = config.flow_steps, config.candidates
        self._size = size = config.chunk * spec.actions

        def encoder() -> StateEncoder:
            return StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)

        self.encoder = encoder()
        self.field = FlowField(self.encoder.size, size, hidden=config.hidden)
        self.critic = Critic(encoder(), size, members=config.critics, hidden=config.hidden)
        self.one_step = FlowField(self.encoder.size, size, hidden=config.hidden) if config.distilled else None

    def chunks(self, state: Tensor, noise: Tensor) -> Tensor:
        """Carry noise (B, N) to the chunks of the flow."""
        return carry(self.field, state, noise, self._steps)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A); the distilled one is of the noise's middle without noise."""
        state = self.encoder(features, proprio)
        if self.one_step is not None:
            noise = self._noise(len(state), rng)
            return carry(self.one_step, state, noise * (not deterministic), 1)
        many = state.repeat_interleave(self._candidates, dim=0)
        return self._best(features, proprio, self.chunks(many, self._noise(len(many), rng)))

    def values(self, features: Tensor, proprio: Tensor, action: Tensor) -> Tensor:
        """Return Q(o, a) of whole chunks (B, chunk * A) by each critic, (E, B)."""
        return self.critic(features, proprio, action)

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
        """Return the best of several chunks (B, chunk * A) that continue what is left of the last ones."""
        many = self.encoder(features, proprio).repeat_interleave(self._candidates, dim=0)
        rest = going_out.repeat_interleave(self._candidates, dim=0)
        noise = self._noise(len(many), rng)
        candidates = carry_towards(self.field, many, noise, self._steps, going_out=rest, hold=hold)
        return self._best(features, proprio, candidates)

    def _best(self, features: Tensor, proprio: Tensor, candidates: Tensor) -> Tensor:
        return best_of(self.critic, self.critic.encoder(features, proprio), candidates)

    def _noise(self, rows: int, rng: torch.Generator) -> Tensor:
        return torch.randn(rows, self._size, generator=rng, device=rng.device)


def best_of(critic: Critic, state: Tensor, candidates: Tensor) -> Tensor:
    """Return the chunk of each row that the mean of the critics values most, (B, N).

    Args:
        critic: Asked.
        state: Encoded by the critic, (B, S).
        candidates: M for each row, one after the other, (B * M, N).
    """
    rows, many = len(state), len(candidates) // len(state)
    if many == 1:
        return candidates
    q = critic.on_state(state.repeat_interleave(many, dim=0), candidates).mean(dim=0)
    best = q.unflatten(0, (rows, many)).argmax(dim=1)
    return candidates.unflatten(0, (rows, many))[torch.arange(rows, device=best.device), best]
