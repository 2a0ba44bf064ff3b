"""The first motion of an arm: a little along and about each axis of its tool and back, and what the arm made of it.

Whoever drives asks for the next twist and gives the pose that was measured; nothing moves unless the deadman is held.
What came of it is judged as a whole: an arm that takes twists in its base frame looks, with the tool straight down,
like one whose y and z have the wrong sign, and only all axes together tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.kinematics.joint_motion import ROTATION_M
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Reason
from robot_stack.types.spec import AXES

WAY_M = 0.01
WAY_RAD = float(np.deg2rad(2.0))
SPEED_SHARE = 0.1
"""Of the limits: how fast it goes."""
SETTLE_NS = 600_000_000
"""Rest before each measurement: a target may still be ahead of the arm."""
LEAST_SHARE = 0.2
"""Of the way asked for: less is no motion."""
LOWEST_GAIN, HIGHEST_GAIN = 0.7, 1.3
ALIGNED = 0.9
"""Cosine between two directions that are the same."""
LEVER_M = 0.002
"""The TCP may move by this while the tool turns."""
TURN_RAD = float(np.deg2rad(1.0))
"""The tool may turn by this while it is moved."""


class Trouble(StrEnum):
    """A kind of trouble with the motion along one axis."""

    NONE = "none"
    STILL = "still"
    SIGN = "sign"
    GAIN = "gain"
    FRAME = "frame"
    LEVER = "lever"
    """It turns about another point than the TCP, or turns while it is moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The motion that was measured along or about one axis of the tool.

    Attributes:
        axis: Of the tool, one of `AXES`.
        way: Measured displacement, shape (6,), m and rad (rotation vector), in the tool's frame before.
        rotation: Of T_base_tcp before.
    """

    axis: str
    way: np.ndarray
    rotation: Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisVerdict(Reason[Trouble]):
    """The verdict on the motion along or about one axis of the tool, one of `AXES`."""

    axis: str


class FirstMotion:
    """A motion out and back along each axis, one after the other.

    Args:
        axes: Those that can be driven, out of `AXES`.
        speed_m_s: Of the TCP.
        rotation_speed_rad_s: Of the tool.
    """

    def __init__(self, axes: Sequence[str], *, speed_m_s: float, rotation_speed_rad_s: float) -> None:
        self.moved: list[Moved] = []
        """One entry for each axis that is done."""
        self._axes = tuple(axes)
        self._speeds = (speed_m_s, rotation_speed_rad_s)
        self._began_ns: int | None = None
        self._start: Pose | None = None
        self._place = 0
        self._measured = False

    @property
    def done(self) -> bool:
        """Return whether all axes were moved and the arm is back."""
        return self._place == len(self._axes)

    def twist(self, pose: Pose, now_ns: int, *, held: bool) -> np.ndarray:
        """Return the twist to drive now, shape (6,), tool frame.

        Args:
            pose: Measured T_base_tcp.
            now_ns: Steady clock.
            held: Whether the operator holds the deadman. Letting go leaves the arm where it is; on the way out, the
                axis begins anew then.
        """
        if self.done:
            return np.zeros(6)
        if not held:
            self._begin(next_axis=self._measured)
            return np.zeros(6)
        if self._began_ns is None:
            self._began_ns = now_ns
        axis = self._axes[self._place]
        twist, way_ns = self._drive(axis)
        since_ns = now_ns - self._began_ns - SETTLE_NS
        if since_ns < 0:
            return np.zeros(6)
        if self._start is None:
            self._start = pose
        if since_ns < way_ns:
            return twist
        if since_ns < way_ns + SETTLE_NS:
            return np.zeros(6)
        if not self._measured:
            self._measured = True
            self.moved.append(_moved(axis, self._start, pose))
        if since_ns < 2 * way_ns + SETTLE_NS:
            return -twist
        self._begin(next_axis=True)
        return np.zeros(6)

    def _begin(self, *, next_axis: bool) -> None:
        self._began_ns = self._start = None
        self._measured = False
        self._place += next_axis

    def _drive(self, axis: str) -> tuple[np.ndarray, int]:
        place = AXES.index(axis)
        twist, way, speed = np.zeros(6), WAY_M, self._speeds[0]
        if place >= 3:
            way, speed = WAY_RAD, self._speeds[1]
        twist[place] = speed
        return twist, round(way / speed * 1e9)


def _moved(axis: str, start: Pose, now: Pose) -> Moved:
    way = now.relative_to(start)
    return Moved(axis=axis, way=np.concatenate([way.position_m, way.rotation.as_rotvec()]), rotation=start.rotation)


def judge(moved: Sequence[Moved], *, turns: bool = True) -> list[AxisVerdict]:
    """Return the verdict on each axis, in the order in which they were moved.

    Args:
        moved: What was measured.
        turns: Whether the arm can follow every rotation; one of five joints turns its tool as it moves.
    """
    in_base = _in_base_frame(moved)
    return [_judge(each, in_base=in_base, turns=turns) for each in moved]


def _judge(each: Moved, *, in_base: bool, turns: bool) -> AxisVerdict:
    place, wanted, unit = _asked(each.axis)
    own, other = (each.way[:3], each.way[3:]) if place < 3 else (each.way[3:], each.way[:3])
    size, along = float(np.linalg.norm(own)), float(own @ unit)
    shown = f"{along * 1e3:.1f} mm of {wanted * 1e3:.0f}"
    if place >= 3:
        shown = f"{np.rad2deg(along):.2f} deg of {np.rad2deg(wanted):.0f}"

    def verdict(trouble: Trouble, text: str) -> AxisVerdict:
        return AxisVerdict(kind=trouble, axis=each.axis, text=f"{each.axis}: {text}")

    if size < LEAST_SHARE * wanted:
        return verdict(Trouble.STILL, f"moved {shown}, must follow; is its controller active?")
    if along < ALIGNED * size:
        if in_base:
            text = "moved along the base's axis instead of the tool's; the driver takes twists in base_frame"
            return verdict(Trouble.FRAME, f"{text}: correct tcp_frame, or the driver's command frame")
        if along < -ALIGNED * size:
            return verdict(Trouble.SIGN, f"moved {shown}, the other way; the driver has the opposite sign")
        text = f"moved along {_direction(own)} of the tool instead"
        return verdict(
            Trouble.FRAME, f"{text}; the driver's tool frame is turned: correct tcp_frame and its kinematics"
        )
    gain = along / wanted
    if not LOWEST_GAIN <= gain <= HIGHEST_GAIN:
        text = f"moved {shown}, {gain:.2g} times as far as asked"
        return verdict(Trouble.GAIN, f"{text}; correct the units: command_in and the two scales")
    if place >= 3 and float(np.linalg.norm(other)) > LEVER_M:
        text = f"the TCP moved {np.linalg.norm(other) * 1e3:.1f} mm while the tool turned"
        return verdict(Trouble.LEVER, f"{text}; the driver turns it about another point: correct the TCP")
    if place < 3 and float(np.linalg.norm(other)) > TURN_RAD + (0.0 if turns else WAY_M / ROTATION_M):
        text = f"the tool turned by {np.rad2deg(np.linalg.norm(other)):.1f} deg while it was moved"
        return verdict(Trouble.LEVER, f"{text}; correct kinematics or the frame of twists")
    return verdict(Trouble.NONE, f"moved {shown}")


def _in_base_frame(moved: Sequence[Moved]) -> bool:
    """Return whether all that moved went along the base's axes, and not all of it along the tool's."""
    found = []
    for each in moved:
        place, wanted, unit = _asked(each.axis)
        own = each.way[:3] if place < 3 else each.way[3:]
        size = float(np.linalg.norm(own))
        if size >= LEAST_SHARE * wanted:
            base = each.rotation.inv().apply(unit)
            found.append((float(own @ base) > ALIGNED * size, float(own @ unit) > ALIGNED * size))
    return bool(found) and all(base for base, _ in found) and not all(tool for _, tool in found)


def _asked(axis: str) -> tuple[int, float, np.ndarray]:
    place = AXES.index(axis)
    unit = np.zeros(3)
    unit[place % 3] = 1.0
    return place, WAY_M if place < 3 else WAY_RAD, unit


def _direction(own: np.ndarray) -> str:
    place = int(np.argmax(np.abs(own)))
    return f"{'-' if own[place] < 0 else ''}{'xyz'[place]}"
