"""Hyperparameters of flow-matching behaviour cloning."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.settings import Sampling


class FlowConfig(BaseModel):
    """Hyperparameters of a flow over chunks and of how they are played; features and heads are those of BC."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(256, ge=2, le=4096)
    pretrain_updates: int = Field(3000, ge=1, description="updates on the demonstrations before online training")
    utd: float = Field(1.0, ge=0.0, le=100.0, description="updates per online environment step; 0 learns no correction")
    chunk: int = Field(8, ge=1, le=20, description="ticks that one decision covers")
    replan: int = Field(2, ge=1, le=20, description="ticks of a chunk that are played before the next is decided")
    join: Literal["cut", "ensemble", "inpaint"] = Field(
        "inpaint", description="how the next chunk takes over from what is left of the last one"
    )
    flow_steps: int = Field(10, ge=1, le=100, description="Euler steps from noise to a chunk")
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    hidden: tuple[int, ...] = (256, 256, 256)
    head: int = Field(64, ge=8, le=512)
    actor_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the published policy follows the trained one; 1 publishes it"
    )

    @model_validator(mode="after")
    def _within_the_chunk(self) -> Self:
        if self.replan > self.chunk:
            raise ValueError(f"replan is {self.replan}, must be at most chunk ({self.chunk}); lower it")
        return self


class FlowBCConfig(FlowConfig):
    """Hyperparameters of behaviour cloning by a flow over chunks."""

    @property
    def shaping_weight(self) -> float:
        """Return 0: cloning reads no reward."""
        return 0.0

    @property
    def sampling(self) -> Sampling:
        """Return a uniform sampling of demonstrations and corrections, in whole chunks."""
        return Sampling(expert_fraction=1.0, n_step=self.chunk, chunk=self.chunk)
