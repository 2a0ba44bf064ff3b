"""The reading of a device at one instant, and what all readers of devices have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from robot_stack.config.teleop import RealTeleop
from robot_stack.plugins import Part
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import ENDS_MOTION

LARGEST = 2.0
"""Devices overshoot their documented range a little; an axis beyond this is a broken report, not an eager hand."""


def check_axes(axes: np.ndarray) -> None:
    """Raise RobotError unless `axes` are six plausible numbers."""
    if axes.shape != (6,) or not np.isfinite(axes).all() or np.abs(axes).max() > LARGEST:
        raise RobotError(f"axes are {axes}, must be six numbers within +-{LARGEST:g}; replug the device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The axes and keys of one device at one instant.

    Attributes:
        axes: float64, shape (6,): x forward, y left, z up and the turns about them, nominally in [-1, 1]; zeros for
            a device without axes.
        held: Actions whose keys are down, out of those of `bindings`.
        tapped: Actions whose keys went down since the last reading, also if they are up again.
        pose: Of the handle, where the device has one.

    Raises:
        RobotError: If the axes are no plausible numbers.
    """

    axes: np.ndarray
    held: frozenset[str] = frozenset()
    tapped: frozenset[str] = frozenset()
    pose: Pose | None = None

    def __post_init__(self) -> None:
        check_axes(self.axes)


PacketT_contra = TypeVar("PacketT_contra", contravariant=True)


class Decoder(Protocol[PacketT_contra]):
    """A decoder of what a device sends, piece by piece, into readings. It begins at rest with no key down."""

    def push(self, packet: PacketT_contra) -> None:
        """Take the next piece that the device has sent.

        Raises:
            RobotError: If the device sends nonsense.
        """
        ...

    def reading(self) -> Reading:
        """Return the reading of the device now; taps are given once.

        Raises:
            RobotError: If what it says cannot be.
        """
        ...


class Reader(Protocol):
    """One device that may be absent, silent or broken at any time."""

    @property
    def name(self) -> str:
        """Return the device's name as an operator is told it."""
        ...

    @property
    def problem(self) -> str:
        """Return a plain sentence about why the last poll gave nothing, else ""."""
        ...

    def poll(self, now_ns: int) -> Reading | None:
        """Return the newest reading, or None while there is no device to believe. Never blocks."""
        ...


DeviceT = TypeVar("DeviceT", bound=RealTeleop)


@dataclass(frozen=True, kw_only=True)
class DevicePart(Part[DeviceT]):
    """A teleop device of another package.

    Attributes:
        config: Model of its teleop files: a `HandTeleop`, whose deflection asks for a velocity, or one that is
            `Following` too, whose motion is repeated.
        reader: Builds what is polled; opens nothing yet.
    """

    reader: Callable[[DeviceT], Reader]


class KeyState:
    """The keys that are down, and those that went down since the last look."""

    def __init__(self) -> None:
        self.held: frozenset[str] = frozenset()
        self._tapped: frozenset[str] = frozenset()

    def now(self, held: frozenset[str]) -> None:
        """Set the keys that are down now, and remember those that went down."""
        self._tapped |= held - self.held
        self.held = held

    def already(self, held: frozenset[str]) -> None:
        """Set the keys that were down before anybody looked: no taps, but of those that end motion.

        They may have gone down while the device was away.
        """
        self._tapped |= (held - self.held) & ENDS_MOTION
        self.held = held

    def taps(self) -> frozenset[str]:
        """Return the keys that went down since the last call."""
        tapped, self._tapped = self._tapped, frozenset()
        return tapped
