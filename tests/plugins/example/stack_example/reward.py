"""A reward model for finished episodes: the brighter the picture, the further the task."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from reward_models.interface import Capabilities, ClipQuery, PairQuery, Score, Unsupported, clip_score
from reward_models.vlm.registry import Family


class BrightnessSettings(BaseModel):
    """Settings of the brightness."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    view: str
    """Camera that is looked at."""


class Brightness:
    """The mean brightness of the last frame; implements `RewardModel`."""

    name = "example_brightness"
    version = "1"

    def __init__(self, settings: BrightnessSettings) -> None:
        self._view = settings.view
        self.capabilities = Capabilities(progress=True, views=(settings.view,))

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score clips by the brightness of their last frames, in [0, 1]."""
        return [clip_score(float(query.frames[-1].view(self._view).mean() / 255)) for query in queries]

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Refuse pairs."""
        raise Unsupported("brightness compares no pairs, must be asked for progress")

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Refuse to say what is done."""
        raise Unsupported("brightness knows no end, must be asked for progress")


REWARD = Family(config=BrightnessSettings, make=Brightness)
