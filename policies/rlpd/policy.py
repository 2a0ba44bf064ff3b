"""The policy of RLPD: a Gaussian for the arms, and the argmax of a critic for each discrete gripper."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.action_layout import ActionLayout
from policies.exploration import ExplorationNoise, standard_normal
from policies.learner import LearnerSpec
from policies.networks import Critic, GaussianActor, GripperCritic, StateEncoder
from policies.rlpd.config import RLPDConfig


class ArmCritic(Critic):
    """The critics of RLPD, which value the arms' part of an action; implements `policies.learner.ValuesActions`."""

    def __init__(self, spec: LearnerSpec, config: RLPDConfig) -> None:
        self.layout = ActionLayout(actions=spec.actions, grippers=spec.grippers, chunk=config.chunk)
        encoder = StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)
        super().__init__(
            encoder, self.layout.arm_size, members=config.critics, hidden=config.hidden, layers=config.layers
        )

    def values(self, features: Tensor, proprio: Tensor, action: Tensor) -> Tensor:
        """Return Q(o, a) of whole actions (B, chunk * A) by each critic, (E, B)."""
        return self(features, proprio, self.layout.arm(action))


class TrainedPolicy(nn.Module):
    """A policy that RLPD's learner can train; neighbours of RLPD bring their own.

    Attributes:
        layout: How its actions are divided.
        chunk: Ticks that one decision covers.
        actor: Network of the arms' part; its parameters are trained up the critics.
        gripper: Critic of the discrete grippers, or None.
    """

    layout: ActionLayout
    chunk: int
    actor: GaussianActor
    gripper: GripperCritic | None

    def sample(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample the arms' part: reparameterised action (B, arm_size), its log probability (B,), and its mean.

        Args:
            features: (B, F).
            proprio: (B, P).
            noise: Standard normal, (B, arm_size).
        """
        raise NotImplementedError

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return whole actions (B, chunk * A)."""
        raise NotImplementedError

    def samples(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator) -> Tensor:
        """Draw whole actions (B, chunk * A) with white noise, see `ExploresSmoothly`."""
        arm, _, _ = self.sample(features, proprio, standard_normal(len(features), self.layout.arm_size, rng))
        return self.with_grippers(arm, features, proprio)

    def with_grippers(self, arm: Tensor, features: Tensor, proprio: Tensor) -> Tensor:
        """Put the best choice of each discrete gripper beside the arms' part, (B, chunk * A)."""
        choices = None if self.gripper is None else self.gripper(features, proprio).argmax(dim=2)
        return self.layout.join(arm, choices)


class RLPDPolicy(TrainedPolicy):
    """The policy of RLPD, on the observation alone; implements `policies.learner.ActingNetwork`."""

    def __init__(self, spec: LearnerSpec, config: RLPDConfig) -> None:
        super().__init__()
        self.layout = ActionLayout(actions=spec.actions, grippers=spec.grippers, chunk=config.chunk)
        self.chunk = config.chunk

        def encoder() -> StateEncoder:
            return StateEncoder(spec.parts, spec.proprio_mean, spec.proprio_std, head=config.head)

        self.actor = GaussianActor(
            encoder(),
            self.layout.arm_size,
            hidden=config.hidden,
            std_min=config.std_min,
            std_max=config.std_max,
            layers=config.layers,
        )
        self.gripper = (
            GripperCritic(encoder(), len(spec.grippers), hidden=config.hidden, layers=config.layers)
            if spec.grippers
            else None
        )
        self._noise = ExplorationNoise(self.layout.arm_size, config.smooth_ticks)

    def sample(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample the arms' part from the actor alone."""
        return self.actor.sample(features, proprio, noise)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return the actor's part and, beside it, the best choice of each discrete gripper."""
        if deterministic:
            arm = self.actor.deterministic(features, proprio)
        else:
            noise = self._noise.draw(len(features), lambda: self.actor.hidden(features, proprio), tick=tick, rng=rng)
            arm, _, _ = self.sample(features, proprio, noise)
        return self.with_grippers(arm, features, proprio)
