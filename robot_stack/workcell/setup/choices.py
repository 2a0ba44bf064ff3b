"""Everything that a new cell can be made of: arms, examples of tasks, devices and limits that files describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.files.library import find, names
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.resolve import load_run
from robot_stack.config.teleop import BrowserTeleop, GamepadTeleop, RealTeleop, So101LeaderTeleop
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.setup.arms import KnownArm, known_arms

MATCHED = ("match", "pedal", "keyboard")
"""Keys of a device's file below which it says which one of several is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleTask:
    """A task of a real cell that can be copied, with the settings of its run.

    Attributes:
        run: Name of the run.
        text: What is to be done.
        feels_force: Whether it needs an arm that measures a wrench.
    """

    run: str
    text: str
    feels_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A teleop device of which a file is known.

    Attributes:
        file: Name of its file in teleop/.
        kind: What it is.
        on_port: Whether its servos are at a serial port of this machine.
        matched: Keys of the file below which a connected device is named by its USB numbers.
    """

    file: str
    kind: str
    on_port: bool
    matched: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Everything that files offer for a new cell."""

    arms: tuple[KnownArm, ...]
    tasks: tuple[ExampleTask, ...]
    devices: tuple[KnownDevice, ...]
    safety: tuple[str, ...]

    @classmethod
    def of(cls, roots: tuple[Path, ...]) -> Choices:
        """Read what the configuration folders offer; what is broken there is left out."""
        return cls(
            arms=known_arms(roots),
            tasks=tuple(_tasks(roots)),
            devices=tuple(_devices(roots)),
            safety=names("safety", roots),
        )


def _tasks(roots: tuple[Path, ...]) -> Iterator[ExampleTask]:
    seen = set()
    for name in names("runs", roots):
        path = find("runs", name, roots)
        try:
            run = load_run(path) if path is not None else None
        except ConfigError:
            continue  # `show` tells of it whoever names it
        if (
            run is None
            or run.task.others  # a copy of it would want files of several tasks
            or run.task.name in seen
            or not all(isinstance(each, DriverRobot) for each in run.robots.values())
        ):
            continue
        seen.add(run.task.name)
        forced = any(entry.name == "wrench" for entry in run.task.proprio)
        yield ExampleTask(run=name, text=run.task.text, feels_force=forced)


def _devices(roots: tuple[Path, ...]) -> Iterator[KnownDevice]:
    for name in names("teleop", roots):
        path = find("teleop", name, roots)
        try:
            device = load(path, TELEOPS) if path is not None else None
        except ConfigError:
            continue
        if isinstance(device, RealTeleop) and not isinstance(device, BrowserTeleop):
            given = device.model_dump(exclude_unset=True)
            if isinstance(device, GamepadTeleop):
                given["match"] = device.match  # asked for though the file names none: several may be plugged in
            matched = tuple((key,) if key == "match" else (key, "match") for key in MATCHED if given.get(key))
            yield KnownDevice(
                file=name, kind=device.device, on_port=isinstance(device, So101LeaderTeleop), matched=matched
            )
