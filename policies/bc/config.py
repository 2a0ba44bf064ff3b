"""Hyperparameters of behaviour cloning."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class BCConfig(BaseModel):
    """The same actor network and features as RLPD, so that only the learning differs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(256, ge=2, le=4096)
    updates: int = Field(3000, ge=1)
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
