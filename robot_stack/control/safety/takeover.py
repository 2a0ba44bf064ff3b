"""An operator's hand on one arm: when it is in control, and when it no longer is."""

from __future__ import annotations

import numpy as np

from robot_stack.control.action_space import opening_of_press
from robot_stack.types.command import Intent, Source
from robot_stack.types.robot import TeleopSample

MOVING = 1e-3
"""Teleop deflection below which the hand is at rest; the dead zone itself belongs to the device."""


class Takeover:
    """An operator's hand on one arm, by the samples of its device; `update` once per tick while an episode runs.

    Args:
        scale: Twist at full deflection, shape (6,), m/s and rad/s.
        silent_s: Age at which a sample no longer counts.
        release_s: From letting go of the deadman to letting go of the arm.
    """

    def __init__(self, scale: np.ndarray, *, silent_s: float, release_s: float) -> None:
        self.engaged = False
        """Whether the arm is in the hand; for `release_s` after the deadman was let go of, too."""
        self.sample: TeleopSample | None = None
        self._scale = scale
        self._silent_ns = silent_s * 1e9
        self._release_ns = release_s * 1e9
        self._must_release = False
        self._released_ns: int | None = None
        self._moved_ns: int | None = None

    def take(self, sample: TeleopSample) -> None:
        """Take the newest checked sample of the device.

        A deadman that is held counts as soon as samples are fresh again; only one that a HOLD has voided must be seen
        released, then pressed anew.
        """
        if not sample.deadman and not sample.lost:
            self._must_release = False
        self.sample = sample

    @property
    def driving(self) -> bool:
        """Return whether the deadman of the arm in the hand is held."""
        return self.engaged and self._released_ns is None

    @property
    def moved_ns(self) -> int | None:
        """Return when the hand that drives last moved; None if it never did, or does not drive."""
        return self._moved_ns if self.driving else None

    @property
    def lost(self) -> bool:
        """Return whether the device says that it is lost."""
        return self.sample is not None and self.sample.lost

    def silent_ms(self, now_ns: int) -> float:
        """Return for how long the device has said nothing; infinite if it never did."""
        return float("inf") if self.sample is None else (now_ns - self.sample.stamp_ns) / 1e6

    def lost_ms(self, now_ns: int) -> float:
        """Return for how long the device has been silent with the arm in the hand; 0 while it is not."""
        silent_ms = self.silent_ms(now_ns)
        return silent_ms if self.engaged and silent_ms * 1e6 > self._silent_ns else 0.0

    def held(self, now_ns: int) -> bool:
        """Return whether the deadman is held, by a sample that counts: fresh, and of a device that is not lost."""
        sample = self.sample
        return (
            sample is not None
            and sample.deadman
            and not sample.lost
            and self.silent_ms(now_ns) * 1e6 <= self._silent_ns
        )

    def grasps(self, now_ns: int) -> bool:
        """Return whether the deadman is held and may take control."""
        return self.held(now_ns) and not self._must_release

    def update(self, now_ns: int) -> None:
        """Take control, keep it, or give it back, as the deadman says."""
        if self.grasps(now_ns):
            if not self.engaged:
                self.engaged, self._moved_ns = True, None
            self._released_ns = None
            sample = self.sample
            if sample is not None and (sample.gripper != 0 or float(np.abs(sample.twist).max()) > MOVING):
                self._moved_ns = now_ns
        elif self.engaged:
            self._released_ns = now_ns if self._released_ns is None else self._released_ns
            if now_ns - self._released_ns >= self._release_ns:
                self.let_go()

    def let_go(self) -> None:
        """Take the hand off the arm."""
        self.engaged, self._released_ns, self._moved_ns = False, None, None

    def void(self) -> None:
        """Void the deadman unless it is known to be released: it must be let go of before it counts again."""
        sample = self.sample
        self._must_release = sample is None or sample.deadman or sample.lost

    def intent(self, source: Source) -> Intent:
        """Return the motion that the hand wants of the arm, labelled `source`.

        Once the deadman is let go of it is none, labelled IDLE.
        """
        sample = self.sample
        if sample is None or not self.driving:
            return Intent(twist=np.zeros(6), source=Source.IDLE)
        twist = np.clip(sample.twist, -1.0, 1.0) * self._scale
        return Intent(twist=twist, gripper=opening_of_press(sample.gripper), source=source)
