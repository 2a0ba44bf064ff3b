"""Hyperparameters of residual reinforcement learning."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from policies.rlpd.config import RLPDConfig


class CorrectionConfig(RLPDConfig):
    """Hyperparameters of a correction on top of a frozen base: RLPD's, and how far it reaches."""

    residual_scale: float = Field(0.4, gt=0.0, le=1.0, description="largest correction, of an action's range")
    std_max: float = Field(0.3, gt=0.0, le=5.0)
    bc_weight: float = Field(0.0, ge=0.0, description="the base imitates; the correction need not")

    @model_validator(mode="after")
    def _of_corrections(self) -> Self:
        if self.chunk > 1:
            raise ValueError(f"chunk is {self.chunk}, must be 1, as the base decides at every tick; leave it out")
        if self.cql_weight > 0:
            raise ValueError(
                f"cql_weight is {self.cql_weight}, must be 0: a correction has a density of its own, which is none of "
                "the actions that the contrast weighs; leave it out"
            )
        return self


class ResidualConfig(CorrectionConfig):
    """Hyperparameters of residual RL on a clone of the demonstrations, and those of the clone."""

    pretrain_updates: int = Field(
        4000, ge=1, description="updates before online training: the base's, then the critics'"
    )
    base_updates: int = Field(3000, ge=1, description="updates that clone the demonstrations; then the base is frozen")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.base_updates > self.pretrain_updates:
            raise ValueError(
                f"base_updates is {self.base_updates}, must be at most pretrain_updates ({self.pretrain_updates}); "
                "the base is cloned before online training, lower it"
            )
        return self


class ResidualOnBaseConfig(CorrectionConfig):
    """Hyperparameters of residual RL on the run's own base policy."""

    pretrain_updates: int = Field(1000, ge=0, description="updates on the demonstrations before online training")
