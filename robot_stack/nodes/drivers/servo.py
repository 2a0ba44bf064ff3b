"""The face of MoveIt Servo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geometry_msgs.msg import TwistStamped
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from robot_stack.config.drivers import ServoRobot
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.servo import HUMBLE, JAZZY, ServoCore, ServoStatus
from robot_stack.nodes.drivers.driver import QuietDriver
from robot_stack.nodes.drivers.messages import twist_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called
from robot_stack.types.reason import Fault

STATUS = "status messages of MoveIt Servo"
TWIST = 1
"""moveit_msgs/ServoCommandType."""


class ServoDriver(QuietDriver):
    """The face of MoveIt Servo: twists stamped with the node's ROS clock, which Servo compares with its own."""

    def __init__(self, wires: Wires, robot: ServoRobot) -> None:
        self._node = wires.node
        self._frame = robot.tcp_frame
        self._core = ServoCore(
            unitless=robot.command_in == "unitless",
            linear_scale_m_s=robot.linear_scale_m_s,
            rotational_scale_rad_s=robot.rotational_scale_rad_s,
        )
        self._health = wires.health
        self._timeout_s = robot.status_timeout_s
        self._twists = wires.speak(TwistStamped, robot.command)
        self._switch_type: Any = None
        self._going_on: Any
        self._pause: Any
        if robot.status_type == "std_msgs/Int8":
            names, self._going_on = HUMBLE, Trigger.Request()
            self._pause = self._node.create_client(Trigger, robot.unpause)
        else:
            names, self._going_on = JAZZY, SetBool.Request(data=False)
            self._pause = self._node.create_client(SetBool, robot.pause)
            self._switch_type = type_called("moveit_msgs/ServoCommandType", "srv")
            self._switch = self._node.create_client(self._switch_type, robot.switch_command_type)
        self._status = ServoStatus(names, self._node.resolve_topic_name(robot.status))
        wires.listen(
            type_called(robot.status_type),
            robot.status,
            STATUS,
            self._on_status,
            timeout_s=robot.status_timeout_s,
            remedy=f"if Servo runs, it is paused, and {wires.health.recovery} goes on",
        )

    def send(self, command: DriverCommand) -> None:
        """Publish the twist of one tick, zeros included."""
        header = Header(stamp=self._node.get_clock().now().to_msg(), frame_id=self._frame)
        self._twists.publish(twist_to_msg(self._core.step(command), header))

    def fault(self) -> Fault | None:
        """Return why Servo halted, until it goes on or an operator has asked for recovery."""
        return self._status.fault()

    def recover(self) -> bool:
        """End a pause of Servo and let motion out of a halt pass; always False."""
        self._status.acknowledge()
        if self._pause.service_is_ready():
            self._pause.call_async(self._going_on)
        return False

    def values(self) -> Mapping[str, object]:
        """Return the status that Servo reports."""
        return {"servo_status": self._status.state}

    def _on_status(self, msg: Any, now_ns: int) -> None:
        if self._health.age_s(STATUS, now_ns) > self._timeout_s:
            self._choose_twists()
        self._status.take(int(msg.data if self._switch_type is None else msg.code))

    def _choose_twists(self) -> None:
        """Tell Servo that it gets twists: one that has just started takes no command before it is told."""
        if self._switch_type is not None and self._switch.service_is_ready():
            self._switch.call_async(self._switch_type.Request(command_type=TWIST))
