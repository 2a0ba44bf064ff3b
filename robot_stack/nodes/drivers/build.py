"""The choice of a driver's face by the robot file."""

from __future__ import annotations

from robot_stack.config.drivers import DriverRobot, FrankaRobot, JointCommandedRobot, PoseTargetRobot, ServoRobot
from robot_stack.control.kinematics.chain import Chain
from robot_stack.nodes.drivers.driver import Driver
from robot_stack.nodes.drivers.joint_commands import joint_driver
from robot_stack.nodes.drivers.pose_target import FrankaDriver, PoseTargetDriver
from robot_stack.nodes.drivers.servo import ServoDriver
from robot_stack.nodes.drivers.wires import Wires


def build_driver(wires: Wires, robot: DriverRobot, chain: Chain | None) -> Driver | None:
    """Build the driver's face; None while it needs kinematics that have not come yet."""
    if isinstance(robot, JointCommandedRobot):
        return None if chain is None else joint_driver(wires, robot, chain)
    if isinstance(robot, ServoRobot):
        return ServoDriver(wires, robot)
    if isinstance(robot, FrankaRobot):
        return FrankaDriver(wires, robot)
    if isinstance(robot, PoseTargetRobot):
        return PoseTargetDriver(wires, robot)
    raise TypeError(f"robot is {type(robot).__name__}, must be one behind a known driver")
