"""From the raw axes of a device to a wanted twist and a deadman. Pure; the device is read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.types.errors import ConfigError, RobotError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngageSettings:
    """How a device feels.

    Attributes:
        deadzone: Raw deflection in [0, 1) below which an axis is at rest; beyond, it starts again from 0.
        scale: Per axis, shape (6,), in [-1, 1]; a negative entry turns the axis round.
        near_zero: After (re)connection nothing passes until all raw axes were below this.
        by_motion: True for a device without a deadman: motion itself takes control.
        enter: With `by_motion`, deflection after the dead zone that takes control.
        leave: With `by_motion`, deflection below which it is given back; below `enter`, so that it does not chatter.
    """

    deadzone: float = 0.1
    scale: tuple[float, ...] = (1.0,) * 6
    near_zero: float = 0.1
    by_motion: bool = False
    enter: float = 0.15
    leave: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 <= self.deadzone < 1.0:
            raise ConfigError(f"deadzone is {self.deadzone}, must be in [0, 1)")
        if len(self.scale) != 6 or not all(abs(entry) <= 1.0 for entry in self.scale):
            raise ConfigError(f"scale is {self.scale}, must be six numbers in [-1, 1]")
        if not 0.0 < self.leave < self.enter < 1.0:
            raise ConfigError(f"leave and enter are {self.leave} and {self.enter}, must be 0 < leave < enter < 1")
        if not 0.0 < self.near_zero < 1.0:
            raise ConfigError(f"near_zero is {self.near_zero}, must be in (0, 1)")


def apply_deadzone(raw: np.ndarray, deadzone: float) -> np.ndarray:
    """Zero below the dead zone, then a straight line up to 1 at full deflection: no step at its edge."""
    beyond = np.maximum(np.abs(raw) - deadzone, 0.0) / (1.0 - deadzone)
    return np.asarray(np.sign(raw) * np.minimum(beyond, 1.0))


class Engagement:
    """Dead zone, scale and deadman of one device."""

    def __init__(self, settings: EngageSettings) -> None:
        self._settings = settings
        self._centred = False
        self._moving = False

    def connected(self) -> None:
        """The device appeared, or came back: wait for its axes to be let go."""
        self._centred, self._moving = False, False

    def update(self, raw: np.ndarray, pressed: bool) -> tuple[np.ndarray, bool]:
        """One reading.

        Args:
            raw: Axes of the device in the order of a tcp twist, shape (6,), nominally in [-1, 1].
            pressed: Deadman button; ignored with `by_motion`.

        Returns:
            Wanted twist, float64, shape (6,), unitless in [-1, 1]; zeros while not engaged. And the deadman.

        Raises:
            RobotError: If the device sends nonsense; the caller stops sampling, and silence means hold.
        """
        if raw.shape != (6,) or not np.isfinite(raw).all():
            raise RobotError(f"axes of teleop device are {raw}, must be six finite numbers; replug it")
        settings = self._settings
        if not self._centred:
            self._centred = float(np.abs(raw).max()) < settings.near_zero
        if not self._centred:
            return np.zeros(6), False
        twist = apply_deadzone(raw, settings.deadzone)
        engaged = self._by_motion(float(np.abs(twist).max())) if settings.by_motion else pressed
        return (twist * np.array(settings.scale) if engaged else np.zeros(6)), engaged

    def _by_motion(self, deflection: float) -> bool:
        self._moving = deflection > (self._settings.leave if self._moving else self._settings.enter)
        return self._moving
