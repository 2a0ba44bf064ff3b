"""The command that every driver gets at a tick, and how long a last one is repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.types.pose import Pose


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCommand:
    """The command of one output tick, from which a driver's core makes what its driver takes.

    Attributes:
        twist: What safety lets through, float64, shape (6,), m/s and rad/s, tcp frame; zeros if it is silent.
        live: Safety is heard and drives, holds or brakes, the state is fresh and nothing forbids motion. Otherwise the
            core brings the arm to rest and forgets its target.
        pose: Measured T_base_tcp; None only if not live, where nobody knows it.
        angles: Measured joint angles, shape (J,); None only if not live, where nobody knows them.
        dt_s: Since the previous tick, above 0 and bounded.
        speed_share: Of the wanted speed that the driver lets happen, in [0, 1].
    """

    twist: np.ndarray
    live: bool
    pose: Pose | None
    angles: np.ndarray | None
    dt_s: float
    speed_share: float = 1.0


class Fading:
    """A countdown for how long a last command is repeated after the reason to send one has gone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left_s = 0.0

    def renew(self) -> None:
        """Start the countdown anew, because there is a reason to send."""
        self._left_s = self._seconds

    def lasts(self, dt_s: float) -> bool:
        """Count down by `dt_s`; return whether to send once more."""
        self._left_s -= dt_s
        return self._left_s > 0.0
