"""Hyperparameters of Q-chunking, and of its distilled form."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.settings import Sampling


class QCConfig(BaseModel):
    """Hyperparameters of Q-chunking: the best of several chunks of a cloned flow, by a critic of chunks."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    distilled: ClassVar[bool] = False

    batch_size: int = Field(128, ge=2, le=4096)
    pretrain_updates: int = Field(3000, ge=0, description="updates on the demonstrations before online training")
    utd: float = Field(4.0, gt=0.0, le=100.0, description="updates per online environment step")
    expert_fraction: float = Field(0.5, ge=0.0, le=1.0, description="share of demo and human rows in a batch")
    discount: float = Field(0.97, gt=0.0, lt=1.0, description="per control tick")
    chunk: int = Field(5, ge=1, le=20, description="ticks that one decision covers, and that a return runs over")
    replan: int = Field(5, ge=1, le=20, description="ticks of a chunk that are played before the next is decided")
    join: Literal["cut", "inpaint"] = Field(
        "cut", description="how the next chunk takes over from what is left of the last one"
    )
    flow_steps: int = Field(5, ge=1, le=100, description="Euler steps from noise to a chunk")
    candidates: int = Field(16, ge=1, le=256, description="chunks that the best to play is taken from")
    target_candidates: int = Field(4, ge=1, le=256, description="the same for the critics' target")
    clones: Literal["experts", "all"] = Field("all", description="whose rows the flow is cloned from")
    critics: int = Field(2, ge=2, le=10)
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    target_tau: float = Field(0.005, gt=0.0, le=1.0)
    actor_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the published policy follows the trained one; 1 publishes it"
    )
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
    shaping_weight: float = Field(1.0, ge=0.0, le=10.0, description="weight of the potential")

    @model_validator(mode="after")
    def _within_the_chunk(self) -> Self:
        if self.replan > self.chunk:
            raise ValueError(f"replan is {self.replan}, must be at most chunk ({self.chunk}); lower it")
        return self

    @property
    def sampling(self) -> Sampling:
        """Return a sampling of whole chunks, whose returns run over them."""
        return Sampling(gamma=self.discount, expert_fraction=self.expert_fraction, n_step=self.chunk, chunk=self.chunk)


class QCFQLConfig(QCConfig):
    """Hyperparameters of distilled Q-chunking: a network of one step stands in for the best of several chunks."""

    distilled: ClassVar[bool] = True

    join: Literal["cut"] = "cut"
    distil_weight: float = Field(
        30.0, ge=0.0, description="of the distance to the flow's chunks in the one-step network's loss"
    )
