"""The rule by which a model says that the task is done, and the frame at which it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reward_models.interface import Frame
from robot_stack.types.errors import RewardError


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneRule:
    """The rule by which probabilities become the verdict "done": n hits among the newest m frames.

    The gate must be open at each hit.

    Attributes:
        threshold: Probability that is a hit, in (0, 1).
        gate: What else must hold at a frame, such as a condition on proprio; None if nothing.

    Raises:
        RewardError: If no frames could ever fulfil it.
    """

    threshold: float
    n: int
    m: int
    gate: Callable[[Frame], bool] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1 or not 1 <= self.n <= self.m:
            raise RewardError(
                f"done rule is {self.n} of {self.m} above {self.threshold}, must be n of at least n, above a "
                "probability in (0, 1)"
            )


def latched_at(done: np.ndarray, rule: DoneRule, allowed: np.ndarray | None = None) -> int | None:
    """Return the first frame at which the rule is fulfilled, None if never.

    An unreadable score is no hit, and takes its place.

    Args:
        done: Probability per frame, shape (T,), NaN where unreadable.
        allowed: Whether the gate is open at a frame, bool, shape (T,); always if None.

    >>> latched_at(np.array([0.9, 0.1, 0.9, 0.9]), DoneRule(threshold=0.8, n=2, m=2))
    3
    """
    hits = np.nan_to_num(np.asarray(done, dtype=np.float64), nan=-1.0) >= rule.threshold
    if allowed is not None:
        hits &= allowed
    sums = np.concatenate([[0], np.cumsum(hits)])
    frames = np.arange(1, len(hits) + 1)
    enough = sums[frames] - sums[np.maximum(0, frames - rule.m)] >= rule.n
    return int(enough.argmax()) if enough.any() else None
