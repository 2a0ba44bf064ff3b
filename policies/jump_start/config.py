"""Hyperparameters of jump-start reinforcement learning."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from policies.rlpd.config import RLPDConfig


class JumpStartConfig(RLPDConfig):
    """Hyperparameters of jump-start RL: RLPD's, and those of the guide and of its retreat."""

    pretrain_updates: int = Field(4000, ge=1, description="updates before online training: the guide's, then RLPD's")
    guide_updates: int = Field(3000, ge=1, description="updates that clone the demonstrations into the guide")
    guide_steps: int = Field(30, ge=1, le=2000, description="ticks that the guide acts for at first")
    stages: int = Field(10, ge=1, le=100, description="steps in which the guide retreats to nothing")
    window: int = Field(8, ge=1, le=200, description="episodes that a stage is judged by")
    tolerance: float = Field(0.1, ge=0.0, le=1.0, description="success that a stage may fall behind the best")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.guide_updates > self.pretrain_updates:
            raise ValueError(
                f"guide_updates is {self.guide_updates}, must be at most pretrain_updates ({self.pretrain_updates}); "
                "the guide is cloned before online training, lower it"
            )
        return self
