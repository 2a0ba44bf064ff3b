"""Settings of the success classifier."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ClassifierConfig(BaseModel):
    """Settings of the success classifier: training budget, and how sure it has to be."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    width: int = Field(128, ge=8, le=1024)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    steps: int = Field(300, ge=1, le=20_000)
    batch: int = Field(256, ge=2, le=4096, description="half of it shows success")
    learning_rate: float = Field(1e-3, gt=0.0, le=1e-1)
    noise: float = Field(0.1, ge=0.0, le=1.0, description="added to standardised inputs while training")
    validation: float = Field(0.25, gt=0.0, lt=1.0, description="share of the episodes that is kept back")
    precision: float = Field(0.95, gt=0.5, lt=1.0, description="wanted precision at the threshold")
    hard_weight: float = Field(
        4.0, ge=1.0, le=100.0, description="weight of frames that it called success, and were not"
    )
