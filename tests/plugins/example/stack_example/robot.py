"""An arm whose driver takes twists of its tool as TwistStamped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.kinematics import RosName
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.kinematics.chain import Chain
from robot_stack.nodes.drivers.driver import QuietDriver, RobotPart

if TYPE_CHECKING:
    from robot_stack.nodes.drivers.wires import Wires


class ExampleArm(DriverRobot):
    """An arm behind the example's driver."""

    backend: Literal["example_arm"]
    """Twists to the driver."""
    command: RosName = "/example_arm/twist"
    """TwistStamped in tcp_frame."""

    @property
    def commands(self) -> Mapping[str, str]:
        """Return the topic of twists, so that two arms on one topic are refused."""
        return {"command": self.command}


class ExampleDriver(QuietDriver):
    """The face of the driver, which hears a twist at every tick; zeros stop the arm."""

    def __init__(self, wires: Wires, robot: ExampleArm) -> None:
        from geometry_msgs.msg import TwistStamped  # only where the arm is driven: a learner's machine has no ROS

        self._make, self._frame = TwistStamped, robot.tcp_frame
        self._twists = wires.speak(TwistStamped, robot.command)

    def send(self, command: DriverCommand) -> None:
        """Publish the twist of one tick, m/s and rad/s."""
        message = self._make()
        message.header.frame_id = self._frame
        linear, angular = message.twist.linear, message.twist.angular
        linear.x, linear.y, linear.z, angular.x, angular.y, angular.z = map(float, command.twist)
        self._twists.publish(message)


def build_driver(wires: Wires, robot: ExampleArm, chain: Chain | None) -> ExampleDriver:
    """Build the driver's face; this one needs no kinematics."""
    return ExampleDriver(wires, robot)


ROBOT = RobotPart(config=ExampleArm, driver=build_driver)
