"""The choice of the arm that one device drives out of several: one at a time, the next one by a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robot_stack.types.errors import ConfigError
from robot_stack.types.robot import TeleopSample

NEXT = "next_arm"
"""The key for it, out of `EVENTS`."""


class ArmSelector:
    """A selector that gives each sample to the chosen arm, and lets go of the others.

    Args:
        arms: In the order in which the key goes round; the first is chosen at the start.

    Raises:
        ConfigError: If there is none.
    """

    def __init__(self, arms: Sequence[str]) -> None:
        if not arms:
            raise ConfigError("arms of a teleop device are 0, must be at least 1; name them in the cell")
        self._arms = tuple(arms)
        self._chosen = 0
        self._must_release = False

    @property
    def chosen(self) -> str:
        """Return the arm that the device drives now."""
        return self._arms[self._chosen]

    def route(self, sample: TeleopSample) -> dict[str, TeleopSample]:
        """Return a sample for each arm. A deadman that is held while the arm changes must be pressed anew.

        Until then the operator has the chosen arm in the hand and does not move it: they have not let go, so the policy
        must not take over. A device that is lost changes no arm, and is lost to all of them: one of them may be in the
        hand.
        """
        if NEXT in sample.events and len(self._arms) > 1 and not sample.lost:
            self._chosen = (self._chosen + 1) % len(self._arms)
            self._must_release = sample.deadman
        elif not sample.deadman:
            self._must_release = False
        aside = TeleopSample(stamp_ns=sample.stamp_ns, twist=np.zeros(6), lost=sample.lost)
        mine = replace(sample, twist=np.zeros(6), gripper=0) if self._must_release else sample
        return {arm: mine if arm == self.chosen else aside for arm in self._arms}
