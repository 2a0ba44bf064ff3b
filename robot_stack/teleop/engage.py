"""The conversion of a device's raw axes to a wanted twist and a deadman, without a jump. Pure: it reads no device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.types.errors import ConfigError

FINE = 0.25
"""Share of the speed that a device asks for while its key for that is held, as on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngageSettings:
    """The feel of a device: its dead zone, scale and ramp, and what takes control.

    Attributes:
        deadzone: Raw deflection in [0, 1) below which an axis is at rest; beyond, it starts again from 0.
        scale: Per axis, shape (6,), in [-1, 1]; a negative entry turns the axis round, 0 blocks it.
        ramp_s: From rest to full deflection at the fastest; falling back is immediate.
        near_zero: After (re)connection nothing passes until all raw axes were below this and the deadman was let go.
        by_motion: True for a device without a deadman: motion itself takes control.
        enter: With `by_motion`, deflection after the dead zone that takes control.
        leave: With `by_motion`, deflection below which it is given back; below `enter`, so that it does not chatter.
    """

    deadzone: float = 0.1
    scale: tuple[float, ...] = (1.0,) * 6
    ramp_s: float = 0.1
    near_zero: float = 0.1
    by_motion: bool = False
    enter: float = 0.15
    leave: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 <= self.deadzone < 1.0:
            raise ConfigError(f"deadzone is {self.deadzone}, must be in [0, 1)")
        if len(self.scale) != 6 or not all(abs(entry) <= 1.0 for entry in self.scale):
            raise ConfigError(f"scale is {self.scale}, must be six numbers in [-1, 1]")
        if not self.ramp_s > 0.0:
            raise ConfigError(f"ramp_s is {self.ramp_s}, must be above 0")
        if not 0.0 < self.leave < self.enter < 1.0:
            raise ConfigError(f"leave and enter are {self.leave} and {self.enter}, must be 0 < leave < enter < 1")
        if not 0.0 < self.near_zero < 1.0:
            raise ConfigError(f"near_zero is {self.near_zero}, must be in (0, 1)")


def apply_deadzone(raw: np.ndarray, deadzone: float) -> np.ndarray:
    """Apply a dead zone: zero below it, then a straight line up to 1 at full deflection, with no step at its edge."""
    beyond = np.maximum(np.abs(raw) - deadzone, 0.0) / (1.0 - deadzone)
    return np.asarray(np.sign(raw) * np.minimum(beyond, 1.0))


class Engagement:
    """The dead zone, scale, ramp and deadman of one device.

    With a deadman that is held, an axis counts once it has been at rest since the press: a stick that was already
    deflected moves nothing. With `by_motion` there is no such rest; there the ramp alone keeps the start smooth.
    """

    def __init__(self, settings: EngageSettings) -> None:
        self._settings = settings
        self._scale = np.array(settings.scale)
        self._ready = False
        self._moving = False
        self._rested = np.zeros(6, dtype=bool)
        self._twist = np.zeros(6)
        self._last_ns: int | None = None

    def connected(self) -> None:
        """Wait for everything to be let go, since the device appeared, or came back."""
        self._ready = False
        self._let_go()

    def update(self, raw: np.ndarray, pressed: bool, now_ns: int, *, fine: bool) -> tuple[np.ndarray, bool]:
        """Turn one reading of the device into a wanted twist and a deadman.

        Args:
            raw: Axes of the device, finite, shape (6,), nominally in [-1, 1].
            pressed: Deadman. With `by_motion`, anything else that takes control, such as a gripper button.
            now_ns: Of this reading.
            fine: Whether the operator asks for a fraction of the speed.

        Returns:
            Wanted twist, float64, shape (6,), unitless in [-1, 1]; zeros while not engaged. And the deadman.
        """
        settings = self._settings
        if not self._ready:
            self._ready = not pressed and float(np.abs(raw).max()) < settings.near_zero
            return np.zeros(6), False
        twist = apply_deadzone(raw, settings.deadzone) * self._scale
        engaged = pressed or (settings.by_motion and self._in_motion(twist))
        if not engaged:
            self._let_go()
            return np.zeros(6), False
        if not settings.by_motion:
            self._rested |= twist == 0.0
            twist = twist * self._rested
        return self._ramp(twist * (FINE if fine else 1.0), now_ns), True

    def _in_motion(self, twist: np.ndarray) -> bool:
        deflection = float(np.abs(twist).max())
        self._moving = deflection > (self._settings.leave if self._moving else self._settings.enter)
        return self._moving

    def _ramp(self, wanted: np.ndarray, now_ns: int) -> np.ndarray:
        """Ramp the wanted twist: each axis rises by at most 1 per `ramp_s`; the first one after engaging is zero."""
        passed_s = 0.0 if self._last_ns is None else max(0.0, (now_ns - self._last_ns) / 1e9)
        same_way = np.sign(wanted) == np.sign(self._twist)
        reach = np.where(same_way, np.abs(self._twist), 0.0) + passed_s / self._settings.ramp_s
        self._twist, self._last_ns = np.sign(wanted) * np.minimum(np.abs(wanted), reach), now_ns
        return self._twist.copy()

    def _let_go(self) -> None:
        self._moving = False
        self._rested = np.zeros(6, dtype=bool)
        self._twist = np.zeros(6)
        self._last_ns = None
