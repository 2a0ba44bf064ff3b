"""The signal of a scene unlike the demonstrations, by the distance that the policy's encoder sees."""

from __future__ import annotations

import math

from robot_stack.rollout.asking.moment import Moment
from robot_stack.types.help import HelpKind


class Distance:
    """Distance of the encoder's features from the demonstrations, as `policies.familiarity` measures it."""

    kind = HelpKind.DISTANCE

    def begin(self) -> None:
        """Forget nothing: each tick stands for itself."""

    def value(self, moment: Moment) -> float:
        """Return the distance; NaN without demonstrations, or where the features are no numbers."""
        distance = math.nan if moment.insight is None else moment.insight.distance
        return distance if math.isfinite(distance) else math.nan

    def words(self, value: float) -> str:
        """Say how far away the scene is."""
        return f"what it sees is {value:.1f} times as far from the demonstrations as they are from each other"
