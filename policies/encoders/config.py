"""Settings of the encoders, read where no torch is installed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Pool = Literal["pooled", "spatial_softmax", "spatial_embeddings"]
"""One vector per image; keypoints; or the maps themselves, for a head that learns where to look."""


class NoConfig(BaseModel):
    """The settings of the encoder that looks at nothing: there are none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class EmbeddedConfig(BaseModel):
    """Training settings of the embedded trunk: budget, augmentation and loss weight."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    steps: int = Field(500, ge=1, le=100_000)
    batch: int = Field(96, ge=1, le=4096)
    learning_rate: float = Field(3e-3, gt=0.0, le=1e-1)
    brightness: float = Field(0.25, ge=0.0, le=0.9, description="relative, per image and colour")
    noise: float = Field(4.0, ge=0.0, le=64.0, description="standard deviation of pixel noise, of 255")
    to_go_weight: float = Field(3.0, ge=0.0, le=100.0)
    refit_at: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), strict=False, description="online episodes after which it is fitted again, on all successes so far"
    )
    refit_steps: int = Field(1500, ge=1, le=100_000, description="training steps of such a fit")
    thumbnail: int = Field(
        8, ge=0, le=32, description="cells along a side of the thumbnails that reward models get; 0: none"
    )

    def for_refit(self) -> EmbeddedConfig:
        """Return the settings of a fit on the successes of online training, which are more than the demonstrations."""
        return self.model_copy(update={"steps": self.refit_steps})


class ResNetConfig(BaseModel):
    """Settings of a ResNet encoder of our own code, frozen from a file or trained end to end."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    weights: str | None = Field(None, min_length=1, description="safetensors file, on each machine")
    trained: bool = Field(False, description="end to end, from the file or from random weights; else frozen")
    pool: Pool = "spatial_embeddings"

    @model_validator(mode="after")
    def _frozen_needs_weights(self) -> ResNetConfig:
        if self.weights is None and not self.trained:
            raise ValueError("weights is missing, must be a safetensors file; or set trained: true to learn them")
        return self


class _PretrainedConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    pool: Pool = "pooled"
    input_px: int | None = Field(None, ge=16, le=1024, description="side of the model's input; None: its own")
    local_files_only: bool = Field(True, description="false: fetch from the hub what is not on the disk")


class TransformersConfig(_PretrainedConfig):
    """Settings of a frozen vision tower in the format of transformers."""

    model: str = Field(min_length=1, description="folder of a checkpoint, or hub id")


class TimmConfig(_PretrainedConfig):
    """Settings of a frozen backbone of timm."""

    model: str = Field(min_length=1, description="name of architecture and weights, as timm lists it")
    weights: str | None = Field(None, min_length=1, description="safetensors file; None: the hub's, by name")
