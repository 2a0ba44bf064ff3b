"""Feetech servos of an SO-101: calibration, ticks and radians, goals that may be sent, and what a status means. Pure.

LeRobot's calibration gives each servo a range of ticks, in which the middle is the joint's zero: so has
so101_new_calib.urdf. A turn has 4096 ticks; LeRobot divides by 4095, which differs by 0.02 %.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.reason import Fault, FaultKind

TICKS = 4096
"""A turn."""
RAD_PER_TICK = 2.0 * math.pi / TICKS
WHOLE_PERCENT = 100.0

STATUS_BITS: Mapping[int, tuple[FaultKind, str]] = {
    0x01: (FaultKind.DRIVER_ERROR, "its voltage is out of range; look at the power supply"),
    0x02: (FaultKind.DRIVER_ERROR, "its position sensor is broken; replace it"),
    0x04: (FaultKind.PROTECTIVE_STOP, "it is too hot; let it cool down"),
    0x08: (FaultKind.PROTECTIVE_STOP, "its current is too high; look at what blocks it"),
    0x10: (FaultKind.DRIVER_ERROR, "its angle is out of its range; move it back by hand"),
    0x20: (FaultKind.PROTECTIVE_STOP, "it is overloaded and has given way; take the load off"),
}
"""Bit of the status -> what kind of fault it is, and what to do. Overheat, current and overload are the servo's own
protection, which stops it whatever it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoCalibration:
    """The calibration of one servo, as LeRobot's file has it.

    Attributes:
        id: On the bus.
        drive_mode: 1 turns it round.
        homing_offset: Ticks that the servo itself takes off what its sensor reads.
        range_min: Lowest tick of the joint.
        range_max: Highest tick of the joint.
    """

    id: int
    drive_mode: int
    homing_offset: int
    range_min: int
    range_max: int

    @property
    def sign(self) -> int:
        """Return the direction of the servo: -1 if it is turned round, else 1."""
        return -1 if self.drive_mode else 1

    @property
    def middle(self) -> float:
        """Return the tick of the joint's zero."""
        return (self.range_min + self.range_max) / 2.0

    def angle(self, ticks: int) -> float:
        """Return the joint's angle at a tick, in rad."""
        return self.sign * (ticks - self.middle) * RAD_PER_TICK

    def ticks(self, angle: float) -> int:
        """Return the tick for an angle in rad, within the range.

        Raises:
            RobotError: If the angle is not finite.
        """
        if not math.isfinite(angle):
            raise RobotError(f"angle for servo {self.id} is {angle}, must be finite; nothing is sent")
        return self._inside(self.middle + self.sign * angle / RAD_PER_TICK)

    def percent(self, ticks: int) -> float:
        """Return the place of a tick in the servo's range, 0 to 100; LeRobot's unit of a gripper."""
        share = (ticks - self.range_min) / (self.range_max - self.range_min)
        inside = min(1.0, max(0.0, share))
        return WHOLE_PERCENT * (1.0 - inside if self.drive_mode else inside)

    def ticks_of_percent(self, percent: float) -> int:
        """Return the tick for a place in the servo's range, 0 to 100.

        Raises:
            RobotError: If it is not finite.
        """
        if not math.isfinite(percent):
            raise RobotError(f"opening for servo {self.id} is {percent}, must be finite; nothing is sent")
        share = percent / WHOLE_PERCENT
        share = 1.0 - share if self.drive_mode else share
        return self._inside(self.range_min + share * (self.range_max - self.range_min))

    def _inside(self, ticks: float) -> int:
        return round(min(float(self.range_max), max(float(self.range_min), ticks)))


def calibrations_of(text: str, source: str) -> dict[str, ServoCalibration]:
    """Read servo -> calibration from the JSON that lerobot-calibrate writes.

    Raises:
        ConfigError: If it is no such file.
    """
    names = {field.name for field in fields(ServoCalibration)}
    try:
        tree = json.loads(text)
        entries = {name: {key: entry[key] for key in names} for name, entry in tree.items()}
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"calibration {source} cannot be read ({type(error).__name__}: {error}), must be what lerobot-calibrate "
            "writes; calibrate the arm"
        ) from None
    for name, entry in entries.items():
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in entry.values())
        if not whole or not 0 <= entry["range_min"] < entry["range_max"] < TICKS or entry["drive_mode"] not in (0, 1):
            raise ConfigError(
                f"calibration of {name} in {source} is {entry}, must have whole numbers and a range within "
                f"0 to {TICKS - 1}; calibrate the arm"
            )
    found = {name: ServoCalibration(**entry) for name, entry in entries.items()}
    if len({each.id for each in found.values()}) < len(found):
        raise ConfigError(f"ids in {source} are {[each.id for each in found.values()]}, must be unique; calibrate")
    return found


def chosen(calibrations: Mapping[str, ServoCalibration], names: list[str], source: str) -> dict[str, ServoCalibration]:
    """Return the calibrations of an arm's joints, in their order.

    Raises:
        ConfigError: If one is missing.
    """
    missing = [name for name in names if name not in calibrations]
    if missing:
        raise ConfigError(
            f"calibration {source} has {sorted(calibrations)}, must have {missing} too; correct the names of the joints"
        )
    return {name: calibrations[name] for name in names}


def goals_of(calibrations: Mapping[str, ServoCalibration], angles: np.ndarray) -> dict[str, int]:
    """Return servo -> tick for angles in rad of the joints in this order, shape (J,).

    Raises:
        RobotError: If one is not finite; then none may be sent.
    """
    return {name: each.ticks(float(angle)) for (name, each), angle in zip(calibrations.items(), angles, strict=True)}


def status_fault(statuses: Mapping[str, int], port: str) -> Fault | None:
    """Return the fault of servos that an operator must see to, or None; a servo's own protection comes first."""
    found = [
        Fault(kind=kind, text=f"servo {name} on {port} says that {what}, then recover")
        for name, status in statuses.items()
        for bit, (kind, what) in STATUS_BITS.items()
        if status & bit
    ]
    stops = [fault for fault in found if fault.kind is FaultKind.PROTECTIVE_STOP]
    return next(iter((*stops, *found)), None)


def contradiction(
    calibrations: Mapping[str, ServoCalibration], stored: Mapping[str, tuple[int, int, int]], source: str
) -> Fault | None:
    """Return why a calibration file is not that of these servos, or None.

    Servos keep homing offset and range themselves.

    Args:
        calibrations: Of the file.
        stored: Servo -> homing offset, lowest and highest tick, as it keeps them.
        source: The file.
    """
    for name, each in calibrations.items():
        wanted = (each.homing_offset, each.range_min, each.range_max)
        if stored[name] != wanted:
            return Fault(
                kind=FaultKind.CONTRADICTION,
                text=f"servo {name} keeps offset and range {stored[name]}, must be {wanted} as in {source}; "
                "give the file of this arm, or run lerobot-calibrate",
            )
    return None
