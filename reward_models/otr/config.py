"""Settings of the reward model by optimal transport."""

from __future__ import annotations

from pydantic import Field

from reward_models.progress.config import LiveRewardConfig


class OtrConfig(LiveRewardConfig):
    """Settings of optimal transport to recorded successes."""

    part = "otr"

    references: int = Field(1, ge=1, le=10, description="successes that an episode is transported to")
    points: int = Field(16, ge=4, le=64, description="frames of an episode so far, and of a reference, evenly spread")
    ends: int = Field(24, ge=4, le=100, description="frames of a reference at which it is tried to stop")
    entropy: float = Field(0.05, ge=0.01, le=1.0, description="of the transport, in mean costs")
    iterations: int = Field(40, ge=5, le=500, description="of Sinkhorn's algorithm")
