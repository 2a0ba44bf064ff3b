"""Faces of controllers that follow a pose: any such controller, and Franka's with its mode and recovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.action import ActionClient
from rclpy.client import Client as ServiceClient
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from robot_stack.config.drivers import FrankaRobot, PoseCommandedRobot
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.franka import FrankaStatus
from robot_stack.control.drivers.pose_target import PoseTargetCore
from robot_stack.nodes.drivers.driver import QuietDriver
from robot_stack.nodes.drivers.messages import pose_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called
from robot_stack.types.reason import Fault

SILENT = (
    "after a reflex or the stop button its hardware is unconfigured: free the arm and release the button, send a goal "
    "to error_recovery, then ros2 control set_hardware_component_state FrankaHardwareInterface active, then ros2 "
    "control switch_controllers --activate with the controllers of the robot file and crisp's"
)
"""What to do when Franka's states have gone silent. Source: franka_hardware/doc/index.rst, "Error Recovery"."""


class PoseTargetDriver(QuietDriver):
    """The face of a controller that follows poses in the base frame."""

    def __init__(self, wires: Wires, robot: PoseCommandedRobot) -> None:
        self._node = wires.node
        self._frame = robot.base_frame
        self._core = PoseTargetCore(robot.max_lead_m, robot.max_lead_rad)
        self._poses = wires.speak(PoseStamped, robot.command)

    def send(self, command: DriverCommand) -> None:
        """Publish the target of one tick, while the arm may move and then for a moment where it came to rest."""
        target = self._core.step(command)
        if target is not None:
            header = Header(stamp=self._node.get_clock().now().to_msg(), frame_id=self._frame)
            self._poses.publish(pose_to_msg(target, header))


class FrankaDriver(PoseTargetDriver):
    """The face of Franka's controller, with the robot's mode and error recovery."""

    def __init__(self, wires: Wires, robot: FrankaRobot) -> None:
        super().__init__(wires, robot)
        self._status = FrankaStatus(self._node.resolve_topic_name(robot.robot_state))
        wires.listen(
            type_called(robot.robot_state_type),
            robot.robot_state,
            "states of the Franka",
            self._on_state,
            timeout_s=robot.robot_state_timeout_s,
            remedy=SILENT,
        )
        self._recover: Any
        if robot.recovery_type == "std_srvs/Trigger":
            self._recover = self._node.create_client(Trigger, robot.recovery)
        else:
            self._recovery: Any = type_called(robot.recovery_type, "action")
            self._recover = ActionClient(self._node, self._recovery, robot.recovery)

    def fault(self) -> Fault | None:
        """Return a reflex, an error or a press of the stop button, if Franka reports one."""
        return self._status.fault()

    def waiting(self) -> Fault | None:
        """Return what ends by itself: no controller is active, recovery is under way, or the arm is led by hand."""
        return self._status.waiting()

    def recover(self) -> bool:
        """Ask Franka for error recovery, once; False if nobody is there to be asked."""
        if isinstance(self._recover, ServiceClient):
            if not self._recover.service_is_ready():
                return False
            self._recover.call_async(Trigger.Request())
            return True
        if not self._recover.server_is_ready():
            return False
        self._recover.send_goal_async(self._recovery.Goal())
        return True

    def values(self) -> Mapping[str, object]:
        """Return the mode that Franka reports."""
        return {"robot_mode": self._status.mode}

    def _on_state(self, msg: Any, _: int) -> None:
        self._status.take(int(msg.robot_mode if hasattr(msg, "robot_mode") else msg.data))
