"""Hyperparameters of calibrated Q-learning."""

from __future__ import annotations

from pydantic import Field

from policies.rlpd.config import RLPDConfig


class CalQLConfig(RLPDConfig):
    """Hyperparameters of calibrated Q-learning: RLPD's, and how conservative the critics are."""

    pretrain_updates: int = Field(5000, ge=0, description="offline updates on the demonstrations")
    bc_weight: float = Field(0.0, ge=0.0, description="conservatism keeps the policy near its data instead")
    cql_weight: float = Field(0.2, ge=0.0, le=100.0, description="weight of the conservative term online")
    cql_weight_offline: float = Field(1.0, ge=0.0, le=100.0, description="the same in the updates on demonstrations")
    cql_actions: int = Field(4, ge=1, le=64, description="actions of each kind that stand for all others")
    cql_stride: int = Field(1, ge=1, le=64, description="conservative in every row, not in a sample")
