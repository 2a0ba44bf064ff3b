"""A frozen base policy and a trained correction on top of it."""

from __future__ import annotations

import torch
from torch import Tensor

from policies.action_layout import ActionLayout
from policies.learner import LearnerSpec
from policies.networks import GaussianActor, GripperCritic, StateEncoder
from policies.residual.config import ResidualConfig
from policies.rlpd.policy import TrainedPolicy, standard_normal


class ResidualPolicy(TrainedPolicy):
    """A policy with the action base(o) + scale * correction(o, base(o)), clipped to [-1, 1].

    Source: Ankile et al., 2025, arXiv:2509.19301, section IV. Deviation: the base decides at every tick and is an MLP
    on the same frozen features, not a chunked diffusion policy.
    """

    def __init__(self, spec: LearnerSpec, config: ResidualConfig) -> None:
        super().__init__()
        self.layout = ActionLayout(actions=spec.actions, grippers=spec.grippers)
        self.chunk = 1
        self._scale = config.residual_scale
        size = self.layout.arm_size

        def encoder(mean: Tensor, std: Tensor) -> StateEncoder:
            return StateEncoder(spec.parts, mean, std, head=config.head)

        plain = (spec.proprio_mean, spec.proprio_std)
        with_base = (torch.cat([plain[0], torch.zeros(size)]), torch.cat([plain[1], torch.ones(size)]))
        self.base = GaussianActor(encoder(*plain), size, hidden=config.hidden)
        self.actor = GaussianActor(
            encoder(*with_base), size, hidden=config.hidden, std_min=config.std_min, std_max=config.std_max
        )
        self.gripper = (
            GripperCritic(encoder(*plain), len(spec.grippers), hidden=config.hidden) if spec.grippers else None
        )

    def sample(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the corrected action, the log probability of the correction, and the corrected mean."""
        base = self._base(features, proprio)
        correction, log_prob, mean = self.actor.sample(features, torch.cat([proprio, base], dim=1), noise)
        return self._corrected(base, correction), log_prob, self._corrected(base, mean)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return whole actions (B, A): the corrected base, and the best choice of each discrete gripper."""
        arm, _, mean = self.sample(features, proprio, standard_normal(len(features), self.layout.arm_size, rng))
        choices = None if self.gripper is None else self.gripper(features, proprio).argmax(dim=2)
        return self.layout.join(mean if deterministic else arm, choices)

    @torch.no_grad()
    def _base(self, features: Tensor, proprio: Tensor) -> Tensor:
        return self.base.deterministic(features, proprio)

    def _corrected(self, base: Tensor, correction: Tensor) -> Tensor:
        return (base + self._scale * correction).clamp(-1.0, 1.0)
