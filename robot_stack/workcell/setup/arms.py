"""The arms of which a robot file is known: which of them a driver speaks of, and where they stand at given angles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.feetech import So101Robot
from robot_stack.config.files.library import find, names
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.kinematics import UrdfTopic
from robot_stack.control.drivers.feetech import calibrations_of, contradiction
from robot_stack.control.kinematics.chain import Chain
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.surveyed import SurveyedServo
from robot_stack.workcell.build_arm import build_chain, described_chain, joint_names

Place = tuple[float, float, float]
"""x, y, z in the frame of an arm's base, m."""
BESIDE_M, ABOVE_M = 0.15, 0.1
"""A first guess of a box reaches this far from the home of the tool, sideways and up or down."""
AHEAD_M = 0.05
UNKNOWN_M = (0.4, 0.0, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingArm:
    """An arm at given angles of its joints, in the frame of its base.

    Attributes:
        joints_rad: From base to flange.
        line_m: From the base along its joints to the tool.
        ahead_m: A place a little ahead of the tool, along its z axis.
        quaternion_xyzw: Orientation of the tool.
    """

    joints_rad: tuple[float, ...]
    line_m: tuple[Place, ...]
    ahead_m: Place
    quaternion_xyzw: tuple[float, float, float, float]

    @property
    def tool_m(self) -> Place:
        """Return where the tool is."""
        return self.line_m[-1]

    @classmethod
    def of(cls, chain: Chain, angles: np.ndarray) -> StandingArm:
        """Return an arm at angles in the order of the chain's joints, shape (J,), rad."""
        frames = chain.frames(angles)
        tool = frames[-1] @ chain.tip
        places = [np.zeros(3), *frames[:, :3, 3], tool[:3, 3]]
        x, y, z, w = Pose.from_matrix(tool).quaternion_xyzw.tolist()
        return cls(
            joints_rad=tuple(round(float(angle), 4) for angle in angles),
            line_m=tuple(_place(each) for each in places),
            ahead_m=_place(tool[:3, 3] + AHEAD_M * tool[:3, 2]),
            quaternion_xyzw=(round(x, 5), round(y, 5), round(z, 5), round(w, 5)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownArm:
    """An arm of which a robot file is known.

    Attributes:
        file: Name of its file in robots/.
        backend: What speaks to it.
        base_frame: Frame of its base, in which its box is.
        joints: Names of its joints, from base to flange.
        on_port: Whether its servos are at a serial port of this machine; else a ROS driver moves it.
        feels_force: Whether it measures a wrench.
        home: The arm at home; None if its file does not tell where it is then.
        commands: Topics on which its controller is commanded, by its file.
    """

    file: str
    backend: str
    base_frame: str
    joints: tuple[str, ...]
    on_port: bool
    feels_force: bool
    home: StandingArm | None
    commands: tuple[str, ...] = ()

    def speaks_of(self, published: Collection[str]) -> bool:
        """Return whether a driver that publishes these joint names may be the driver of this arm."""
        return not self.on_port and set(self.joints) <= set(published)


def first_box(home: StandingArm | None) -> tuple[Place, Place]:
    """Return a first guess of the box in which the tool may be: around its home, lower corner and upper corner."""
    x, y, z = UNKNOWN_M if home is None else home.tool_m
    low = (round(x - BESIDE_M, 3), round(y - BESIDE_M, 3), round(max(0.02, z - ABOVE_M), 3))
    return low, (round(x + BESIDE_M, 3), round(y + BESIDE_M, 3), round(z + ABOVE_M, 3))


def known_arms(roots: tuple[Path, ...]) -> tuple[KnownArm, ...]:
    """Return all real arms in the configuration folders, by the names of their files; a broken file is left out."""
    return tuple(_known(roots))


def standing_arm(
    file: str, angles: Mapping[str, float] | None, descriptions: Mapping[str, str], roots: tuple[Path, ...]
) -> StandingArm | None:
    """Return an arm at given angles of its joints; None if nobody tells its kinematics or one of the angles.

    Args:
        file: Name of the arm's file in robots/.
        angles: Joint -> rad; None for the arm's home.
        descriptions: Topic -> the URDF that a driver publishes there.
        roots: Configuration folders.
    """
    try:
        robot = _robot(file, roots)
        if robot is None:
            return None
        chain = build_chain(robot)
        if chain is None and isinstance(robot.kinematics, UrdfTopic):
            topic = robot.kinematics.topic
            text = descriptions.get(topic, "")
            chain = described_chain(robot, robot.kinematics, text, source=topic) if text else None
        names = joint_names(robot)
        if chain is None or (angles is not None and not set(names) <= angles.keys()):
            return None
        return StandingArm.of(chain, np.array(robot.home_rad if angles is None else [angles[name] for name in names]))
    except (ConfigError, SpecError):
        return None  # `show` and the running cell tell of it by name


def joint_topic(file: str, roots: tuple[Path, ...]) -> str:
    """Return the topic on which an arm's file expects the angles of its joints; "" if it expects them on none."""
    try:
        robot = _robot(file, roots)
    except ConfigError:
        return ""
    return robot.joint_states if robot is not None and robot.over_topics else ""


def _robot(file: str, roots: tuple[Path, ...]) -> DriverRobot | None:
    path = find("robots", file, roots)
    robot = load(path, ROBOTS) if path is not None else None
    return robot if isinstance(robot, DriverRobot) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedServos:
    """Servos that have answered, by a calibration file.

    Attributes:
        angles: Joint -> rad, of those whose servo has told how it is calibrated.
        refused: Why the file is not that of these servos, "" if it is.
    """

    angles: Mapping[str, float]
    refused: str

    @classmethod
    def of(cls, seen: Mapping[str, SurveyedServo], calibration: Path) -> CalibratedServos:
        """Compare what was seen with the file.

        Args:
            seen: Id of a servo -> what it said.
            calibration: File that lerobot-calibrate has written.

        Raises:
            ConfigError: If the file is none.
        """
        try:
            text = calibration.expanduser().read_text()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{calibration} cannot be read ({error}), must be a calibration; choose another"
            ) from error
        servos = calibrations_of(text, str(calibration))
        there = {name: seen[str(servo.id)] for name, servo in servos.items() if str(servo.id) in seen}
        stored = {name: servo.stored for name, servo in there.items() if servo.stored is not None}
        fault = contradiction({name: servos[name] for name in stored}, stored, str(calibration))
        return cls(
            angles={name: servos[name].angle(there[name].ticks) for name in stored},
            refused="" if fault is None else fault.text,
        )


def _place(entries: np.ndarray) -> Place:
    x, y, z = entries.tolist()
    return round(x, 4), round(y, 4), round(z, 4)


def _known(roots: tuple[Path, ...]) -> Iterable[KnownArm]:
    for name in names("robots", roots):
        path = find("robots", name, roots)
        try:
            robot = load(path, ROBOTS) if path is not None else None
            if not isinstance(robot, DriverRobot):
                continue
            chain = build_chain(robot)
        except ConfigError:
            continue  # `show` tells of it whoever names it
        yield KnownArm(
            file=name,
            backend=robot.backend,
            base_frame=robot.base_frame,
            joints=tuple(joint_names(robot)),
            on_port=isinstance(robot, So101Robot),
            feels_force=robot.wrench is not None,
            home=None if chain is None else StandingArm.of(chain, np.array(robot.home_rad)),
            commands=tuple(robot.commands.values()) if robot.over_topics else (),
        )
