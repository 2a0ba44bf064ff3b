"""The arms of which a robot file is known: which of them a driver speaks of, and where its tool is at home."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.feetech import So101Robot
from robot_stack.config.files.library import find, names
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.build_arm import build_chain, joint_names

BESIDE_M, ABOVE_M = 0.15, 0.1
"""A first guess of a box reaches this far from the home of the tool, sideways and up or down."""


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
        home_m: Place of its tool at home, x, y, z in its base frame; None if its file does not tell.
        commands: Topics on which its controller is commanded, by its file.
    """

    file: str
    backend: str
    base_frame: str
    joints: tuple[str, ...]
    on_port: bool
    feels_force: bool
    home_m: tuple[float, float, float] | None
    commands: tuple[str, ...] = ()

    def speaks_of(self, published: Collection[str]) -> bool:
        """Return whether a driver that publishes these joint names may be the driver of this arm."""
        return not self.on_port and set(self.joints) <= set(published)

    @property
    def first_box(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Return a first guess of the box in which the tool may be: around its home, lower corner and upper corner."""
        x, y, z = self.home_m or (0.4, 0.0, 0.3)
        low = (round(x - BESIDE_M, 3), round(y - BESIDE_M, 3), round(max(0.02, z - ABOVE_M), 3))
        return low, (round(x + BESIDE_M, 3), round(y + BESIDE_M, 3), round(z + ABOVE_M, 3))


def known_arms(roots: tuple[Path, ...]) -> tuple[KnownArm, ...]:
    """Return all real arms in the configuration folders, by the names of their files; a broken file is left out."""
    return tuple(_known(roots))


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
        home = None if chain is None else chain.pose(np.array(robot.home_rad)).position_m
        yield KnownArm(
            file=name,
            backend=robot.backend,
            base_frame=robot.base_frame,
            joints=tuple(joint_names(robot)),
            on_port=isinstance(robot, So101Robot),
            feels_force=robot.wrench is not None,
            home_m=None if home is None else (float(home[0]), float(home[1]), float(home[2])),
            commands=tuple(robot.commands.values()) if robot.over_topics else (),
        )
