"""Hyperparameters of the coarse-to-fine Q-network, of single ticks and of chunks."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.settings import Sampling


class CQNConfig(BaseModel):
    """Hyperparameters of the coarse-to-fine Q-network; docs/algorithms/cqn.md has the published values beside them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(128, ge=2, le=4096)
    pretrain_updates: int = Field(3000, ge=0, description="updates on the demonstrations before online training")
    utd: float = Field(4.0, gt=0.0, le=100.0, description="updates per online environment step")
    expert_fraction: float = Field(0.5, ge=0.0, le=1.0, description="share of demo and human rows in a batch")
    discount: float = Field(0.97, gt=0.0, lt=1.0, description="per control tick")
    n_step: int = Field(3, ge=1, le=10, description="ticks that a return runs over; with a chunk, it runs over that")
    chunk: int = Field(1, ge=1, le=20, description="ticks that one decision covers")
    join: Literal["cut", "ensemble"] = Field("cut", description="how the next chunk takes over from the last one")
    levels: int = Field(3, ge=1, le=6, description="times that a decision zooms into the range of an action")
    bins: int = Field(5, ge=3, le=21, description="parts that each zoom divides the range into, an odd number")
    atoms: int = Field(51, ge=2, le=255, description="values that a distribution of returns is spread over")
    value_min: float = Field(-1.0, description="lowest of them; returns below it are taken for it")
    value_max: float = Field(1.0, description="highest of them")
    td_weight: float = Field(0.1, ge=0.0, description="weight of the TD loss; 0 leaves imitation")
    imitation_weight: float = Field(1.0, ge=0.0, description="weight of what lifts shown actions above all others")
    margin: float = Field(0.01, ge=0.0, le=1.0, description="by which the value of a shown action is to lie above")
    noise: float = Field(0.05, ge=0.0, le=1.0, description="standard deviation of the exploration noise")
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    target_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the average follows that acts and that targets come from"
    )
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
    shaping_weight: float = Field(1.0, ge=0.0, le=10.0, description="weight of the potential")

    @model_validator(mode="after")
    def _has_a_range_and_a_middle(self) -> Self:
        if self.bins % 2 == 0:
            raise ValueError(f"bins is {self.bins}, must be odd, so that one of them holds still; add one")
        if self.value_min >= self.value_max:
            raise ValueError(f"value_min is {self.value_min}, must be below value_max ({self.value_max}); lower it")
        return self

    @property
    def sampling(self) -> Sampling:
        """Return a sampling whose returns run over a chunk, or over `n_step` ticks where a decision covers one."""
        n_step = self.chunk if self.chunk > 1 else self.n_step
        return Sampling(gamma=self.discount, expert_fraction=self.expert_fraction, n_step=n_step, chunk=self.chunk)


class CQNASConfig(CQNConfig):
    """Hyperparameters of the coarse-to-fine Q-network over sequences of actions."""

    chunk: int = Field(5, ge=1, le=20, description="ticks that one decision covers")
    join: Literal["cut", "ensemble"] = Field("ensemble", description="how the next chunk takes over from the last one")
