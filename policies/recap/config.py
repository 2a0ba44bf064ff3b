"""Hyperparameters of advantage-conditioned cloning."""

from __future__ import annotations

from pydantic import Field

from policies.flow_bc.config import FlowConfig
from policies.settings import Sampling


class RecapConfig(FlowConfig):
    """Hyperparameters of advantage-conditioned cloning: the flow's, and those of what tells good steps from others."""

    batch_size: int = Field(128, ge=2, le=4096)
    utd: float = Field(4.0, gt=0.0, le=100.0, description="updates per online environment step")
    discount: float = Field(0.97, gt=0.0, lt=1.0, description="per control tick")
    expert_fraction: float = Field(0.5, ge=0.0, le=1.0, description="share of demo and human rows in a batch")
    positive_share: float = Field(
        0.3, gt=0.0, lt=1.0, description="share of the policy's own steps that count as better than expected"
    )
    condition_dropout: float = Field(
        0.3, ge=0.0, le=1.0, description="share of rows that are not told their advantage; 1 clones all steps alike"
    )
    target_tau: float = Field(0.005, gt=0.0, le=1.0)
    shaping_weight: float = Field(1.0, ge=0.0, le=10.0, description="weight of the potential")

    @property
    def sampling(self) -> Sampling:
        """Return a sampling of all that was done, in whole chunks."""
        return Sampling(gamma=self.discount, expert_fraction=self.expert_fraction, n_step=self.chunk, chunk=self.chunk)
