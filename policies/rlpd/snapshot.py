"""A copy of a critic as it is at one moment, to be asked later about actions that it has not been trained on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from policies.action_layout import ActionLayout
from policies.device import upload
from policies.learner import TensorBatch
from policies.networks import Critic
from policies.rlpd import losses
from policies.rlpd.policy import TrainedPolicy
from policies.vision import Vision

Module = TypeVar("Module", bound=nn.Module)


class CriticSnapshot:
    """A copy of RLPD's critic, with the policy and the target critic of its TD error; implements `AskedCritic`.

    Args:
        mean: Whether the target is the critics' mean instead of their minimum.

    Values are computed in float32 also where updates are not: actions differ by less than bf16 resolves.
    """

    values_discrete_grippers = False

    def __init__(
        self,
        layout: ActionLayout,
        policy: TrainedPolicy,
        critic: Critic,
        target: Critic,
        vision: Vision,
        *,
        mean: bool,
    ) -> None:
        self._layout, self._mean = layout, mean
        self._policy, self._critic = _copied(policy), _copied(critic)
        self._target, self._vision = _copied(target), _copied(vision)

    @torch.no_grad()
    def values(self, batch: TensorBatch, actions: Sequence[Tensor]) -> list[Tensor]:
        """Return the mean over the critics of Q(o, a) for each of several actions (B, C * A), each (B,)."""
        state = self._critic.encoder(self._vision.now(batch), batch.proprio)
        return [self._critic.on_state(state, self._layout.arm(action)).mean(dim=0) for action in actions]

    @torch.no_grad()
    def targets(self, batch: TensorBatch, rng: torch.Generator) -> Tensor:
        """Return the Bellman target of each row, (B,), with the minimum, or mean, of all target critics.

        `rng` draws a'.
        """
        seen = self._vision.see(batch)
        noise = torch.randn(len(batch.reward), self._layout.arm_size, generator=rng)
        device = str(batch.reward.device)
        action, _, _ = self._policy.sample(seen.following, batch.next_proprio, upload(noise, device))
        next_q = self._target(seen.target, batch.next_proprio, action)
        everyone = torch.arange(self._target.members, device=batch.reward.device)
        return losses.td_target(batch.reward, batch.discount, next_q, everyone, mean=self._mean)


def _copied(module: Module) -> Module:
    return copy.deepcopy(module).requires_grad_(False)
