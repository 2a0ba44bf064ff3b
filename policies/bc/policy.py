"""The acting policy of imitation learning: RLPD's actor network without its noise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from policies.learner import LearnerSpec
from policies.networks import GaussianActor, StateEncoder


class BCPolicy(nn.Module):
    """The acting network of imitation learning; implements `policies.learner.ActingNetwork`.

    A discrete gripper is a number here, read with the usual deadband.
    """

    chunk = 1

    def __init__(self, spec: LearnerSpec, *, head: int, hidden: Sequence[int]) -> None:
        super().__init__()
        encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=head)
        self.actor = GaussianActor(encoder, spec.actions, hidden=hidden)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return deterministic actions (B, A); never with noise."""
        return self.actor.deterministic(features, proprio)
