"""A base policy that stays as it is, and a trained correction on top of it."""

from __future__ import annotations

import torch
from torch import Tensor

from policies.action_layout import ActionLayout
from policies.exploration import ExplorationNoise
from policies.learner import LearnerSpec
from policies.networks import GaussianActor, GripperCritic, StateEncoder
from policies.residual.config import CorrectionConfig, ResidualConfig, ResidualOnBaseConfig
from policies.rlpd.policy import TrainedPolicy


class CorrectingPolicy(TrainedPolicy):
    """A policy with the action base(o) + scale * correction(o, base(o)), clipped to [-1, 1].

    Source: Ankile et al., 2025, arXiv:2509.19301, section IV.

    Args:
        spec: Sizes.
        config: Hyperparameters.
        shown: Mean and standard deviation of the proprio vector that the correction sees.
    """

    def __init__(self, spec: LearnerSpec, config: CorrectionConfig, shown: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.layout = ActionLayout(actions=spec.actions, grippers=spec.grippers)
        self.chunk = 1
        self._scale = config.residual_scale
        self.actor = GaussianActor(
            StateEncoder(spec.parts, *shown, head=config.head), self.layout.arm_size, hidden=config.hidden,
            std_min=config.std_min, std_max=config.std_max, layers=config.layers,
        )  # fmt: skip
        self._noise = ExplorationNoise(self.layout.arm_size, config.smooth_ticks)
        plain = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        self.gripper = (
            GripperCritic(plain, len(spec.grippers), hidden=config.hidden, layers=config.layers)
            if spec.grippers
            else None
        )

    def proposal(self, features: Tensor, proprio: Tensor) -> tuple[Tensor, Tensor]:
        """Return the arms' part of what the base proposes, (B, arm_size), and the proprio that the correction sees."""
        raise NotImplementedError

    def sample(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the corrected action, the log probability of the correction, and the corrected mean."""
        base, shown = self.proposal(features, proprio)
        correction, log_prob, mean = self.actor.sample(features, shown, noise)
        return self._corrected(base, correction), log_prob, self._corrected(base, mean)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return whole actions (B, A): the corrected base, and the best choice of each discrete gripper."""
        noise = self._noise.draw(
            len(features),
            lambda: self.actor.hidden(features, self.proposal(features, proprio)[1]),
            tick=tick,
            rng=rng,
        )
        arm, _, mean = self.sample(features, proprio, noise)
        return self.with_grippers(mean if deterministic else arm, features, proprio)

    def _corrected(self, base: Tensor, correction: Tensor) -> Tensor:
        return (base + self._scale * correction).clamp(-1.0, 1.0)


class ResidualPolicy(CorrectingPolicy):
    """A correction of a clone of the demonstrations.

    Deviation: the base decides at every tick and is an MLP on the same frozen features, no chunked diffusion policy.
    """

    def __init__(self, spec: LearnerSpec, config: ResidualConfig) -> None:
        plain, size = (spec.proprio_mean, spec.proprio_std), spec.actions - len(spec.grippers)
        super().__init__(
            spec, config, (torch.cat([plain[0], torch.zeros(size)]), torch.cat([plain[1], torch.ones(size)]))
        )
        encoder = StateEncoder(spec.parts, *plain, head=config.head)
        self.base = GaussianActor(encoder, size, hidden=config.hidden, layers=config.layers)

    @torch.no_grad()
    def proposal(self, features: Tensor, proprio: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the clone would do, and the proprio vector with that behind it."""
        base = self.base.deterministic(features, proprio)
        return base, torch.cat([proprio, base], dim=1)


class ResidualOnBasePolicy(CorrectingPolicy):
    """A correction of whatever the run's base policy proposes, which stands at the end of the proprio vector.

    The proposal is recorded with each observation, so replay, critics and correction see what the base said at that
    moment; the base itself is neither asked nor known here.
    """

    def __init__(self, spec: LearnerSpec, config: ResidualOnBaseConfig) -> None:
        super().__init__(spec, config, (spec.proprio_mean, spec.proprio_std))
        self._actions = spec.actions

    def proposal(self, features: Tensor, proprio: Tensor) -> tuple[Tensor, Tensor]:
        """Return the recorded proposal, and the proprio vector as it is."""
        return self.layout.arm(proprio[:, -self._actions :]), proprio
