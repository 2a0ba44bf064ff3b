"""The signals of disagreement: among the policy's own samples, and among the critics about what is executed.

Source: disagreement of an ensemble as novelty, Menda et al., 2019, arXiv:1807.08364 (EnsembleDAgger); its use to ask,
Hoque et al., 2021, arXiv:2109.08273 (ThriftyDAgger). Deviation: no threshold of its own, see `calibrator`.
"""

from __future__ import annotations

import math

import numpy as np

from robot_stack.rollout.asking.moment import Moment
from robot_stack.types.help import HelpKind


def deviation(values: np.ndarray | None) -> float:
    """Return the standard deviation over the first axis, averaged over the others; NaN of fewer than two."""
    if values is None or len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    return float(np.std(values, axis=0).mean())


class SampleSpread:
    """Standard deviation of what the policy could have done as well, averaged over the entries of its action."""

    kind = HelpKind.SAMPLES

    def begin(self) -> None:
        """Forget nothing: each tick stands for itself."""

    def value(self, moment: Moment) -> float:
        """Return the deviation, unitless; NaN where no samples were drawn."""
        return deviation(None if moment.insight is None else moment.insight.samples)

    def words(self, value: float) -> str:
        """Say how undecided the policy is."""
        return f"it is undecided: its own samples differ by {value:.2f}"


class CriticSpread:
    """Standard deviation of Q over the critics, at the action that was sent."""

    kind = HelpKind.CRITICS

    def begin(self) -> None:
        """Forget nothing: each tick stands for itself."""

    def value(self, moment: Moment) -> float:
        """Return the deviation, in units of reward; NaN without critics."""
        return deviation(None if moment.insight is None else moment.insight.q)

    def words(self, value: float) -> str:
        """Say how far apart the critics are."""
        return f"its critics differ by {value:.2f} about what it does"
