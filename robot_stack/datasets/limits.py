"""The limits of the dataset checks: one default per rule, each with its unit and reason."""

from __future__ import annotations

from dataclasses import dataclass


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
