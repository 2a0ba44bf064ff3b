"""The builder of a teleop device from its configuration. It opens nothing; a missing library is told at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack import plugins
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import (
    BrowserTeleop,
    Following,
    GamepadTeleop,
    JoyTeleop,
    KeyboardTeleop,
    LeaderTeleop,
    RealTeleop,
    So101LeaderTeleop,
    SpaceMouseTeleop,
)
from robot_stack.config.teleop_parts import Feel, MotionDeadman, PageHand
from robot_stack.plugins import Registry
from robot_stack.teleop.bindings import Device
from robot_stack.teleop.clutch import Clutch
from robot_stack.teleop.device import Drive, FollowDrive, HandDevice, RateDrive
from robot_stack.teleop.engage import Engagement, EngageSettings
from robot_stack.teleop.messages import JointPacket, JoyPacket
from robot_stack.teleop.page import TOPIC as PAGE_TOPIC
from robot_stack.teleop.page import page_reader
from robot_stack.teleop.readers import MessageReader
from robot_stack.teleop.reading import DevicePart, Reader
from robot_stack.teleop.robot_view import DeflectionFrame, RobotView
from robot_stack.teleop.sources import (
    Machine,
    alive_reader,
    buttons_reader,
    gamepad_reader,
    grip_reader,
    joy_reader,
    keyboard_reader,
    leader_reader,
    pedal_reader,
    so101_reader,
    spacemouse_reader,
)
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose

PARTS: Registry[DevicePart[Any]] = Registry(plugins.DEVICES, DevicePart)
ITSELF = "itself"
COLUMNS = {
    SpaceMouseTeleop: Device.SPACEMOUSE,
    GamepadTeleop: Device.GAMEPAD,
    KeyboardTeleop: Device.KEYBOARD,
    BrowserTeleop: Device.KEYBOARD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTeleop:
    """A built teleop device and the inputs that must be fed to it.

    Attributes:
        device: To be sampled.
        joy: Topic -> reader of the sensor_msgs/Joy that it brings.
        leader: Reader of the leader's messages, where there is one.
        grip: Reader of the topic that the leader's grip has for itself, where it has one.
        alive: Reader of the pose that shows whether the device of a Joy is there, where it has one.
        robot: To be shown the robot's state, where the device asks for it.
        keys: Columns of the key table that count.
    """

    device: HandDevice
    joy: Mapping[str, MessageReader[JoyPacket]]
    leader: MessageReader[Pose | JointPacket] | None
    grip: MessageReader[float] | None = None
    alive: MessageReader[Pose] | None = None
    robot: RobotView | None
    keys: tuple[Device, ...]


def build_teleop(config: RealTeleop, full_scale: np.ndarray, machine: Machine | None = None) -> BuiltTeleop:
    """Build the teleop device of a cell.

    Args:
        config: Of any device but the scripted operator.
        full_scale: Twist that a full deflection asks for, shape (6,), m/s and rad/s, 0 on axes that do not move.
        machine: Where devices are; default: this one.

    Raises:
        RobotError: If a library is missing that the device needs.
        ConfigError: If it names a key or an axis that there is not.
    """
    machine = machine if machine is not None else Machine()
    joy: dict[str, MessageReader[JoyPacket]] = {}
    leader: MessageReader[Pose | JointPacket] | None = None
    grip: MessageReader[float] | None = None
    alive: MessageReader[Pose] | None = None
    readers: dict[str, Reader] = {}
    if isinstance(config, JoyTeleop):
        readers[ITSELF] = joy[config.topic] = joy_reader(config)
        if config.alive is not None:
            readers["alive"] = alive = alive_reader(config.alive)
    elif isinstance(config, BrowserTeleop):
        readers[ITSELF] = joy[PAGE_TOPIC] = page_reader(config)
    elif isinstance(config, LeaderTeleop):
        readers[ITSELF] = leader = leader_reader(config)
        if config.joy is not None:
            readers["joy"] = joy[config.joy.topic] = buttons_reader(config.joy)
        if config.gripper_topic is not None:
            readers["grip"] = grip = grip_reader(config.gripper_topic)
    else:
        readers[ITSELF] = _port_reader(config, machine)
    if config.pedal is not None:
        readers["pedal"] = pedal_reader(config.pedal, machine)
    if config.keyboard is not None:
        readers["keyboard"] = keyboard_reader(config.keyboard, machine)
    robot = RobotView()
    drive, looks = _drive(config, full_scale, robot)
    holder = list(readers).index(config.deadman if config.deadman in readers else ITSELF)
    return BuiltTeleop(
        device=HandDevice(
            list(readers.values()),
            drive,
            None if config.deadman == "motion" else holder,
            [reader.stops for reader in joy.values()],
        ),
        joy=joy,
        leader=leader,
        grip=grip,
        alive=alive,
        robot=robot if looks else None,
        keys=_columns(config),
    )


def build_page(hand: PageHand) -> BuiltTeleop:
    """Build the device of a page beside the scripted operator, who owns the rest of the device."""
    reader, robot = page_reader(hand), RobotView()
    drive, looks = _rate_drive(hand, MotionDeadman(), robot, by_motion=False)
    return BuiltTeleop(
        device=HandDevice([reader], drive, 0),
        joy={PAGE_TOPIC: reader},
        leader=None,
        robot=robot if looks else None,
        keys=(Device.KEYBOARD,),
    )


def _port_reader(config: RealTeleop, machine: Machine) -> Reader:
    if isinstance(config, SpaceMouseTeleop):
        return spacemouse_reader(config, machine)
    if isinstance(config, GamepadTeleop):
        return gamepad_reader(config, machine)
    if isinstance(config, KeyboardTeleop):
        return keyboard_reader(config, machine)
    if isinstance(config, So101LeaderTeleop):
        return so101_reader(config, machine)
    if config.device in TELEOPS.builtin:
        raise ConfigError(f"device is {config.device!r}, must be one at a port of this machine")
    return PARTS[config.device].reader(config)


def _drive(config: RealTeleop, full_scale: np.ndarray, robot: RobotView) -> tuple[Drive, bool]:
    """Return the drive of a device, and whether it looks at the robot."""
    if isinstance(config, Following):
        clutch = Clutch(
            full_scale,
            gain_per_s=config.gain_per_s,
            motion_scale=config.motion_scale,
            yaw_rad=config.yaw_rad,
            axes=config.axes if isinstance(config, LeaderTeleop) else "ros",
        )
        return FollowDrive(clutch, robot), True
    if not isinstance(config, Feel):
        raise ConfigError(f"device is {config.device!r}, must be a hand's or a leader; add how it drives")
    motion = config.motion if isinstance(config, SpaceMouseTeleop | JoyTeleop) else MotionDeadman()
    return _rate_drive(config, motion, robot, by_motion=config.deadman == "motion")


def _rate_drive(feel: Feel, motion: MotionDeadman, robot: RobotView, *, by_motion: bool) -> tuple[Drive, bool]:
    settings = EngageSettings(
        deadzone=feel.deadzone,
        scale=feel.gains,
        ramp_s=feel.ramp_s,
        by_motion=by_motion,
        enter=motion.enter,
        leave=motion.leave,
    )
    yaw_rad = 0.0 if feel.viewer_yaw_rad is None else feel.viewer_yaw_rad
    frame = DeflectionFrame(feel.frame, yaw_rad, robot)
    return RateDrive(Engagement(settings), frame), feel.frame != "tcp"


def _columns(config: RealTeleop) -> tuple[Device, ...]:
    itself = [column for model, column in COLUMNS.items() if isinstance(config, model)]
    beside = [Device.PEDAL] if config.pedal is not None else []
    return (*itself, *beside, *([Device.KEYBOARD] if config.keyboard is not None else []))
