"""Settings of live reward models, and those of the embedded progress model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from reward_models.alarms import AlarmConfig
from reward_models.classifier.config import ClassifierConfig


class LiveRewardConfig(BaseModel):
    """Settings that the learner reads of every live reward model: its labels, and when it is trusted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    part: ClassVar[str]
    """The name under which the model of these settings is registered."""
    labels: Literal["time", "distance"] = Field(
        "time", description="progress of a success: its share in time, or how much nearer the arm is to its last pose"
    )
    done_frames: int = Field(
        6, ge=1, le=100, description="frames before an operator's verdict that show the task done; fewer than he waits"
    )
    gate: float = Field(
        0.0, ge=0.0, le=100.0, description="how fast Φ stops following where it contradicts itself; 0 is no gate"
    )
    take_overs: bool = Field(
        False, description="whether Φ learns that the end of a correction is further than the moment before it"
    )
    alarms: AlarmConfig = Field(default=AlarmConfig(), description="when the model is no longer trusted")

    def for_refit(self) -> Self:
        """Return the settings of a fit during online training, beside which the policy learns."""
        return self

    def mistakes(self, parts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Return the settings that do not fit a run, and what is wrong with each.

        Args:
            parts: Numbers of each part of its proprio.
        """
        return iter(())


class ProgressConfig(LiveRewardConfig):
    """Settings of the progress model: size, budget, augmentation and trust."""

    part = "progress"

    members: int = Field(3, ge=1, le=10, description="networks of the ensemble, each with its own seed and draw")
    window: int = Field(12, ge=2, le=32, description="frames of a prefix, evenly spread over it")
    width: int = Field(96, ge=16, le=512)
    layers: int = Field(2, ge=1, le=8)
    steps: int = Field(800, ge=1, le=20_000, description="of each member")
    refit_steps: int = Field(
        400,
        ge=1,
        le=20_000,
        description="the same during online training, at most `steps`: the policy learns beside it",
    )
    batch: int = Field(48, ge=1, le=1024)
    learning_rate: float = Field(7e-4, gt=0.0, le=1e-1)
    rewind: float = Field(0.6, ge=0.0, le=1.0, description="share of clips that run forward, then back")
    recover: float = Field(0.35, ge=0.0, le=1.0, description="share of these that then run forward again")
    stall: float = Field(0.15, ge=0.0, le=1.0, description="share of clips whose last frame is held")
    shuffle: float = Field(0.05, ge=0.0, le=1.0, description="share of clips out of order")
    negative_weight: float = Field(4.0, ge=0.0, le=100.0, description="weight of refused successes in the done loss")
    preference_weight: float = Field(
        1.0,
        ge=0.0,
        le=100.0,
        description="weight of preferences and take-overs in the loss; 0 learns nothing from them",
    )
    held_out: int = Field(
        2, ge=0, le=20, description="successes kept back to calibrate and for VOC, and as many failures"
    )
    threshold: float = Field(0.85, gt=0.0, lt=1.0, description="probability of success that counts as done")
    confirm: ClassifierConfig | None = Field(
        None, description="a success classifier that must see success too before it is declared"
    )

    def for_refit(self) -> Self:
        """Return the settings with `refit_steps`, if these are fewer."""
        return self.model_copy(update={"steps": min(self.steps, self.refit_steps)})
