"""Hyperparameters of steering a flow by its noise: of one that is cloned here, or of the run's base."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.settings import Sampling


class SteeringConfig(BaseModel):
    """Hyperparameters of the learner of noise."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(128, ge=2, le=4096)
    utd: float = Field(4.0, gt=0.0, le=100.0, description="updates per online environment step")
    expert_fraction: float = Field(0.5, ge=0.0, le=1.0, description="share of demo and human rows in a batch")
    discount: float = Field(0.97, gt=0.0, lt=1.0, description="per control tick")
    chunk: int = Field(5, ge=1, le=20, description="ticks that one decision covers, and that a return runs over")
    noise_bound: float = Field(1.5, gt=0.0, le=5.0, description="largest noise that is asked for")
    critics: int = Field(2, ge=2, le=10)
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    target_tau: float = Field(0.005, gt=0.0, le=1.0)
    actor_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the published policy follows the trained one; 1 publishes it"
    )
    initial_temperature: float = Field(0.01, gt=0.0, le=1.0)
    target_entropy_per_action: float = Field(-0.5, ge=-5.0, le=1.0, description="per number of the noise")
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
    shaping_weight: float = Field(1.0, ge=0.0, le=10.0, description="weight of the potential")

    @property
    def sampling(self) -> Sampling:
        """Return a sampling of whole chunks, whose returns run over them."""
        return Sampling(gamma=self.discount, expert_fraction=self.expert_fraction, n_step=self.chunk, chunk=self.chunk)


class DSRLConfig(SteeringConfig):
    """Hyperparameters of diffusion steering: those of the flow that is steered, and of the learner of its noise."""

    pretrain_updates: int = Field(4000, ge=1, description="updates before online training: the flow's, then the rest")
    base_updates: int = Field(3000, ge=1, description="updates that clone the demonstrations; then the flow is frozen")
    replan: int = Field(5, ge=1, le=20, description="ticks of a chunk that are played before the next is decided")
    flow_steps: int = Field(5, ge=1, le=100, description="Euler steps from noise to a chunk")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.base_updates > self.pretrain_updates:
            raise ValueError(
                f"base_updates is {self.base_updates}, must be at most pretrain_updates ({self.pretrain_updates}): "
                "the flow is cloned before online training"
            )
        if self.replan > self.chunk:
            raise ValueError(f"replan is {self.replan}, must be at most chunk ({self.chunk}); lower it")
        return self


class DSRLOnBaseConfig(SteeringConfig):
    """Hyperparameters of steering the run's own base policy by its noise."""

    pretrain_updates: int = Field(0, ge=0, description="updates before online training, in which no noise was chosen")
    chunk: int = Field(2, ge=1, le=20, description="ticks that a return runs over; the base must be asked no sooner")
