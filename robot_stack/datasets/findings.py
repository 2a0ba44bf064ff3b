"""Findings of a check, each one sentence that names the episode and its frames; and the limits that they go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack.types.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLimits:
    """The thresholds of all dataset checks.

    Attributes:
        gap_periods: Longest time between two frames, in control periods; half a period is jitter, more is a lost one.
        late_s: Oldest camera or state in a frame, seconds; the age at which a cell holds.
        skew_periods: Largest difference between the capture stamps of a frame's parts, in control periods.
        frozen_pairs: So many frames in a row equal the one before them, byte for byte, ...
        frozen_steps: ... while the arm travelled this far, in control steps at full speed.
        dark: Mean pixel below which an image shows nothing: lens cap, dead sensor.
        bright: Mean pixel above which it shows nothing: exposure gone wrong.
        jump_steps: Farthest a TCP can travel between two frames, in control steps at full speed; beyond, the state
            jumped or frames are missing.
        jerk: Largest change of an action entry of an operator between two steps; the range is 2.0.
        jerk_score: Modified z-score of an episode's roughness among the demonstrations; 3.5 is the usual bound
            (Iglewicz and Hoaglin, 1993).
        min_steps: Shortest episode that shows anything.
        idle_share: Largest share of steps in which nobody moved the arm.
        score_low: Success probability of the last frame below which the reward model contradicts a success.
        score_high: And above which it contradicts a failure.
    """

    gap_periods: float = 1.5
    late_s: float = 0.2
    skew_periods: float = 1.0
    frozen_pairs: int = 3
    frozen_steps: float = 1.0
    dark: float = 4.0
    bright: float = 251.0
    jump_steps: float = 4.0
    jerk: float = 1.2
    jerk_score: float = 3.5
    min_steps: int = 5
    idle_share: float = 0.5
    score_low: float = 0.1
    score_high: float = 0.9


LIMITS = CheckLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Frames of an episode in which a rule is broken.

    Attributes:
        first: First frame, counted from 0.
        last: Last one, inclusive.
    """

    first: int
    last: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFinding(Finding):
    """A finding about one episode; its text leaves out the episode's name.

    Attributes:
        frames: First and last frame, inclusive; None where it is about the whole episode.
    """

    episode_id: str
    frames: tuple[int, int] | None

    @property
    def sentence(self) -> str:
        """Return the finding as a sentence for people."""
        if self.frames is None:
            where = ""
        elif self.frames[0] == self.frames[1]:
            where = f", frame {self.frames[0]}"
        else:
            where = f", frames {self.frames[0]} to {self.frames[1]}"
        return f"episode {self.episode_id}{where}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON for scripts."""
        return {
            "check": self.check,
            "level": self.level.value,
            "episode_id": self.episode_id,
            "frames": None if self.frames is None else list(self.frames),
            "sentence": self.sentence,
        }


def stretches(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return the first and last index, inclusive, of each stretch of True in a bool array of shape (N,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def spans(mask: np.ndarray, values: np.ndarray) -> list[Span]:
    """Return a span per stretch of True, with the largest of `values` in it; both of shape (N,)."""
    return [Span(first=a, last=b, value=float(values[a : b + 1].max())) for a, b in stretches(mask)]
