"""The choice of a driver's face by the robot file: a built-in one, or that of another package."""

from __future__ import annotations

from typing import Any

from robot_stack import plugins
from robot_stack.config.drivers import DriverRobot, FrankaRobot, JointCommandedRobot, PoseTargetRobot, ServoRobot
from robot_stack.config.feetech import So101Robot
from robot_stack.config.kinds import ROBOTS
from robot_stack.control.drivers.driver_health import DriverHealth
from robot_stack.control.kinematics.chain import Chain
from robot_stack.nodes.drivers.driver import Driver, OwnArm, RobotPart
from robot_stack.nodes.drivers.feetech import ServoArm
from robot_stack.nodes.drivers.joint_commands import joint_driver
from robot_stack.nodes.drivers.pose_target import FrankaDriver, PoseTargetDriver
from robot_stack.nodes.drivers.servo import ServoDriver
from robot_stack.nodes.drivers.wires import Wires
from robot_stack.plugins import Registry

PARTS: Registry[RobotPart[Any]] = Registry(plugins.ROBOTS, RobotPart)


def build_own_arm(health: DriverHealth, name: str, robot: DriverRobot) -> OwnArm | None:
    """Build an arm that this process drives by itself; None where it has a driver with topics.

    Raises:
        ConfigError: If what its file asks for cannot be had.
    """
    if isinstance(robot, So101Robot):
        return ServoArm(health, name, robot)
    part = None if robot.backend in ROBOTS.builtin else PARTS[robot.backend]
    return None if part is None or part.arm is None else part.arm(health, name, robot)


def build_driver(wires: Wires, robot: DriverRobot, chain: Chain | None) -> Driver | None:
    """Build the face of a driver with topics; None while it needs kinematics that have not come yet.

    Raises:
        ConfigError: If what the file asks for cannot be had.
    """
    part = None if robot.backend in ROBOTS.builtin else PARTS[robot.backend]
    if part is not None and part.driver is not None:
        return part.driver(wires, robot, chain)
    if isinstance(robot, JointCommandedRobot):
        return None if chain is None else joint_driver(wires, robot, chain)
    if isinstance(robot, ServoRobot):
        return ServoDriver(wires, robot)
    if isinstance(robot, FrankaRobot):
        return FrankaDriver(wires, robot)
    if isinstance(robot, PoseTargetRobot):
        return PoseTargetDriver(wires, robot)
    raise TypeError(f"robot is {type(robot).__name__}, must be one behind a known driver")
