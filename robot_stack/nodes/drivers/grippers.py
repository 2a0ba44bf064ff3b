"""Faces of grippers, which send a wanted opening once, when it changes.

An action sent a hundred times a second never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.action import ActionClient
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_stack.config.driver_parts import ActionGripper, CommandsGripper, DriverGripper, TrajectoryGripper
from robot_stack.nodes.drivers.messages import duration_of, numbers_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called

CHANGED = 0.01
"""Wanted openings closer than this are the same."""


Move = Callable[[float], bool]
"""Sends the gripper's joint to a position, rad or m; False if that could not be sent."""


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


def mover_of(wires: Wires, gripper: DriverGripper) -> Move:
    """Build what moves the gripper that the robot file names: a forward controller, a trajectory's, or an action."""
    if isinstance(gripper, CommandsGripper):
        positions = wires.speak(Float64MultiArray, gripper.command)

        def publish_position(position: float) -> bool:
            positions.publish(numbers_to_msg(np.array([position])))
            return True

        return publish_position
    if isinstance(gripper, TrajectoryGripper):
        trajectories, joint = wires.speak(JointTrajectory, gripper.command), gripper.joint
        duration = duration_of(gripper.duration_s)

        def publish_point_at_rest(position: float) -> bool:
            point = JointTrajectoryPoint(positions=[position], velocities=[0.0], time_from_start=duration)
            trajectories.publish(JointTrajectory(joint_names=[joint], points=[point]))
            return True

        return publish_point_at_rest
    if isinstance(gripper, ActionGripper):
        kind: Any = type_called(gripper.command_type, "action")
        client: Any = ActionClient(wires.node, kind, gripper.command)

        def send_goal(position: float) -> bool:
            """Send a goal, which replaces the one before, if the server is there."""
            ready = bool(client.server_is_ready())
            if ready:
                client.send_goal_async(goal_of(kind, gripper, position))
            return ready

        return send_goal
    raise TypeError(f"gripper is {type(gripper).__name__}, must have a known interface")


class GripperFace:
    """The face of a driver's gripper, which passes each wanted opening on once."""

    def __init__(self, wires: Wires, gripper: DriverGripper) -> None:
        self._move = mover_of(wires, gripper)
        self._ends = (gripper.closed, gripper.open)
        self._sent: float | None = None

    def follow(self, opening: float | None) -> None:
        """Send the newest wanted opening, in [0, 1], or None before the first; again if it could not be sent."""
        if opening is None or (self._sent is not None and abs(opening - self._sent) < CHANGED):
            return
        closed, opened = self._ends
        if self._move(closed + opening * (opened - closed)):
            self._sent = opening

    def forget(self) -> None:
        """Forget what was sent, so that the next opening is sent even if it is the same."""
        self._sent = None
