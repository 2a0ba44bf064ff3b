"""Hyperparameters of behaviour cloning."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from policies.settings import Sampling


class BCConfig(BaseModel):
    """Hyperparameters of behaviour cloning: network and features are RLPD's, so that only the learning differs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(256, ge=2, le=4096)
    pretrain_updates: int = Field(3000, ge=1, description="all updates there are: they come before online training")
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=8, le=512)
    actor_tau: float = Field(
        1.0, gt=0.0, le=1.0, description="share by which the published policy follows the trained one; 1 publishes it"
    )

    @property
    def utd(self) -> float:
        """Return 0: behaviour cloning makes no updates during online training."""
        return 0.0

    @property
    def shaping_weight(self) -> float:
        """Return 0: behaviour cloning reads no reward."""
        return 0.0

    @property
    def sampling(self) -> Sampling:
        """Return a sampling of demonstrations only: there is nothing else before online training."""
        return Sampling(expert_fraction=1.0)
