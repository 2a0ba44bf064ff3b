"""Faces of grippers, which send a wanted opening once, when it changes.

An action sent a hundred times a second never ends.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from rclpy.action import ActionClient
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_stack.config.driver_parts import ActionGripper, CommandsGripper, DriverGripper, TrajectoryGripper
from robot_stack.nodes.drivers.messages import duration_of, numbers_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called

CHANGED = 0.01
"""Wanted openings closer than this are the same."""


class Line(Protocol):
    """A way to send commands to a gripper."""

    def move(self, position: float) -> bool:
        """Send the gripper's joint to a position, rad or m; False if that could not be sent."""
        ...


class CommandsLine:
    """A line to a gripper behind a forward controller of one joint."""

    def __init__(self, wires: Wires, gripper: CommandsGripper) -> None:
        self._positions = wires.speak(Float64MultiArray, gripper.command)

    def move(self, position: float) -> bool:
        """Publish the position; the newest one wins."""
        self._positions.publish(numbers_to_msg(np.array([position])))
        return True


class TrajectoryLine:
    """A line to a gripper behind a joint trajectory controller of one joint."""

    def __init__(self, wires: Wires, gripper: TrajectoryGripper) -> None:
        self._gripper = gripper
        self._trajectories = wires.speak(JointTrajectory, gripper.command)

    def move(self, position: float) -> bool:
        """Publish a trajectory of one point at the position, ending at rest."""
        point = JointTrajectoryPoint(
            positions=[position], velocities=[0.0], time_from_start=duration_of(self._gripper.duration_s)
        )
        self._trajectories.publish(JointTrajectory(joint_names=[self._gripper.joint], points=[point]))
        return True


class ActionLine:
    """A line to a gripper behind an action of control_msgs; the newest goal replaces the one before."""

    def __init__(self, wires: Wires, gripper: ActionGripper) -> None:
        self._gripper = gripper
        self._kind: Any = type_called(gripper.command_type, "action")
        self._client: Any = ActionClient(wires.node, self._kind, gripper.command)

    def move(self, position: float) -> bool:
        """Send the position as a goal; False if the server is not there."""
        if not self._client.server_is_ready():
            return False
        self._client.send_goal_async(goal_of(self._kind, self._gripper, position))
        return True


def goal_of(kind: Any, gripper: ActionGripper, position: float) -> Any:
    """Build an action's goal that sends the gripper's joint to a position with its highest force.

    GripperCommand has one number for each; ParallelGripperCommand has joint states, as many as there are joints.
    """
    goal = kind.Goal()
    if gripper.command_type == "control_msgs/ParallelGripperCommand":
        goal.command.name, goal.command.position = [gripper.joint], [position]
        goal.command.effort = [gripper.max_force_n]
    else:
        goal.command.position, goal.command.max_effort = position, gripper.max_force_n
    return goal


def line_to(wires: Wires, gripper: DriverGripper) -> Line:
    """Build the line to a gripper that the robot file names."""
    if isinstance(gripper, CommandsGripper):
        return CommandsLine(wires, gripper)
    if isinstance(gripper, TrajectoryGripper):
        return TrajectoryLine(wires, gripper)
    if isinstance(gripper, ActionGripper):
        return ActionLine(wires, gripper)
    raise TypeError(f"gripper is {type(gripper).__name__}, must have a known interface")


class GripperFace:
    """The face of a driver's gripper, which passes each wanted opening on once."""

    def __init__(self, wires: Wires, gripper: DriverGripper) -> None:
        self._line = line_to(wires, gripper)
        self._ends = (gripper.closed, gripper.open)
        self._sent: float | None = None

    def follow(self, opening: float | None) -> None:
        """Send the newest wanted opening, in [0, 1], or None before the first; again if it could not be sent."""
        if opening is None or (self._sent is not None and abs(opening - self._sent) < CHANGED):
            return
        closed, opened = self._ends
        if self._line.move(closed + opening * (opened - closed)):
            self._sent = opening

    def forget(self) -> None:
        """Forget what was sent, so that the next opening is sent even if it is the same."""
        self._sent = None
