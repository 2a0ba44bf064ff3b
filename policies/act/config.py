"""Hyperparameters of the regression of action chunks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from policies.settings import Sampling


class ActConfig(BaseModel):
    """Hyperparameters of behaviour cloning by regression of whole chunks; features and heads are those of BC."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(256, ge=2, le=4096)
    pretrain_updates: int = Field(3000, ge=1, description="updates on the demonstrations before online training")
    utd: float = Field(1.0, ge=0.0, le=100.0, description="updates per online environment step; 0 learns no correction")
    chunk: int = Field(8, ge=1, le=20, description="ticks that one decision covers")
    join: Literal["cut", "ensemble"] = Field("ensemble", description="how the next chunk takes over from the last one")
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
    actor_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the published policy follows the trained one; 1 publishes it"
    )

    @property
    def shaping_weight(self) -> float:
        """Return 0: cloning reads no reward."""
        return 0.0

    @property
    def sampling(self) -> Sampling:
        """Return a uniform sampling of demonstrations and corrections, in whole chunks."""
        return Sampling(expert_fraction=1.0, n_step=self.chunk, chunk=self.chunk)
