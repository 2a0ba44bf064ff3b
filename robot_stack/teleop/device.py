"""A teleop device and what lies beside it, behind `types.interfaces.TeleopDevice`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from robot_stack.teleop.clutch import Clutch
from robot_stack.teleop.engage import Engagement
from robot_stack.teleop.reading import Reader, Reading
from robot_stack.teleop.robot_view import DeflectionFrame, RobotView
from robot_stack.types.errors import RobotError
from robot_stack.types.robot import EVENTS, TeleopSample

LOST_NS = 500_000_000
"""A loss is told for at least this long: a single message may be overtaken by the next. So is the start: a device that
is pushed as it is connected has said so by then."""
PRESS_NS = 100_000_000
"""A gripper press lasts at least this long, for the same reason."""


class Drive(Protocol):
    """The conversion of a reading and a deadman to a wanted twist."""

    def reset(self) -> None:
        """Begin anew, after the device was lost."""
        ...

    def update(self, reading: Reading, pressed: bool, now_ns: int, *, fine: bool) -> tuple[np.ndarray, bool]:
        """Return the wanted twist, float64, shape (6,), unitless in [-1, 1], tcp frame; and the deadman.

        Args:
            reading: Of the device.
            pressed: Whether its deadman is.
            now_ns: On the monotonic clock.
            fine: Whether the operator asks for a fraction of the speed.

        Raises:
            RobotError: If what it needs of the robot is missing.
        """
        ...


class RateDrive:
    """A drive in which deflection asks for a velocity."""

    def __init__(self, engagement: Engagement, frame: DeflectionFrame) -> None:
        self._engagement = engagement
        self._frame = frame

    def reset(self) -> None:
        """Wait for axes and deadman to be let go."""
        self._engagement.connected()

    def update(self, reading: Reading, pressed: bool, now_ns: int, *, fine: bool) -> tuple[np.ndarray, bool]:
        """Return the twist that the deflection asks for, and the deadman; see `Drive`."""
        twist, deadman = self._engagement.update(reading.axes, pressed, now_ns, fine=fine)
        return self._frame.to_tcp(twist, now_ns), deadman


class FollowDrive:
    """A drive that repeats the motion of a handle while the clutch is held."""

    def __init__(self, clutch: Clutch, robot: RobotView) -> None:
        self._clutch = clutch
        self._robot = robot
        self._ready = False

    def reset(self) -> None:
        """Wait for the clutch to be let go."""
        self._clutch.open()
        self._ready = False

    def update(self, reading: Reading, pressed: bool, now_ns: int, *, fine: bool) -> tuple[np.ndarray, bool]:
        """Return the twist that follows the handle, whose way is the arm's, and whether the clutch is closed."""
        follower = self._robot.pose(now_ns)
        self._ready = self._ready or not pressed
        if not (self._ready and pressed) or reading.pose is None:
            self._clutch.open()
            return np.zeros(6), False
        return self._clutch.follow(reading.pose, follower), True


class HandDevice:
    """A device in an operator's hand; implements `TeleopDevice`.

    All of its parts must be there: one that is missing is the device missing. Keys of the parts that are there count
    even then, so that a stop always gets through.
    """

    def __init__(
        self,
        readers: Sequence[Reader],
        drive: Drive,
        deadman: int | None,
        stops: Sequence[Callable[[], frozenset[str]]] = (),
    ) -> None:
        """Combine the readers into one device; nothing is read yet.

        Args:
            readers: The device itself first, then what lies beside it.
            drive: Makes a twist of the first one's readings.
            deadman: Which reader holds the deadman; None where motion or a gripper press takes control.
            stops: Each tells the keys that end motion which went down since its last call where nothing is believed.
        """
        self._stops = tuple(stops)
        self._readers = tuple(readers)
        self._drive = drive
        self._deadman = deadman
        self._lost_ns: int | None = None
        self._gripper = 0
        self._pressed_ns = 0
        self.problem = ""
        """Why it is lost, or was a moment ago, else ""."""

    def sample(self, now_ns: int) -> TeleopSample:
        """Read all parts and return what the operator asks for now."""
        readings = [reader.poll(now_ns) for reader in self._readers]
        there = [reading for reading in readings if reading is not None]
        tapped = {action for reading in there for action in reading.tapped}
        tapped |= {action for stops in self._stops for action in stops()}
        held = {action for reading in there for action in reading.held}
        events = tuple(event for event in EVENTS if event in tapped)
        gripper = self._press(held | tapped, now_ns)
        problems = [reader.problem for reader, reading in zip(self._readers, readings) if reading is None]
        twist, deadman = np.zeros(6), False
        if not problems and not self._just_lost(now_ns):
            try:
                twist, deadman = self._drive.update(
                    there[0], self._is_pressed(there, gripper), now_ns, fine="fine" in held
                )
            except RobotError as error:
                problems = [str(error)]
        if problems or self._lost_ns is None:
            self.problem, self._lost_ns = "; ".join(problems), now_ns
        if self._just_lost(now_ns):
            self._drive.reset()
            return TeleopSample(stamp_ns=now_ns, twist=np.zeros(6), events=events, lost=True)
        self.problem = ""
        return TeleopSample(stamp_ns=now_ns, twist=twist, gripper=gripper, deadman=deadman, events=events)

    def _just_lost(self, now_ns: int) -> bool:
        return self._lost_ns is None or now_ns - self._lost_ns < LOST_NS

    def _is_pressed(self, readings: Sequence[Reading], gripper: int) -> bool:
        if self._deadman is None:
            return gripper != 0
        return "deadman" in readings[self._deadman].held

    def _press(self, actions: set[str], now_ns: int) -> int:
        """Return the gripper press: -1 close, +1 open, 0 neither; both at once are neither."""
        wanted = int("gripper_open" in actions) - int("gripper_close" in actions)
        if wanted != 0:
            self._gripper, self._pressed_ns = wanted, now_ns
        elif now_ns - self._pressed_ns >= PRESS_NS:
            self._gripper = 0
        return self._gripper
