"""Settings of the embedded progress model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ProgressConfig(BaseModel):
    """Budget, augmentation and the rule by which success is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    window: int = Field(12, ge=2, le=32, description="frames of a prefix, evenly spread over it")
    width: int = Field(96, ge=16, le=512)
    layers: int = Field(2, ge=1, le=8)
    steps: int = Field(700, ge=1, le=20_000)
    batch: int = Field(48, ge=1, le=1024)
    learning_rate: float = Field(5e-4, gt=0.0, le=1e-1)
    rewind: float = Field(0.6, ge=0.0, le=1.0, description="share of clips that run forward, then back")
    stall: float = Field(0.15, ge=0.0, le=1.0, description="share of clips whose last frame is held")
    negative_weight: float = Field(4.0, ge=0.0, le=100.0, description="weight of refused successes in the done loss")
    held_out: int = Field(2, ge=0, le=20, description="demos kept back for calibration and VOC")
    done_frames: int = Field(
        6, ge=1, le=100, description="frames before a person's word that show the finished task; fewer than he waits"
    )
    threshold: float = Field(0.85, gt=0.0, lt=1.0, description="probability of success that counts as done")
