"""Faces of grippers, which send a wanted opening once, when it changes, and stop the gripper where nothing may move.

An action sent a hundred times a second never ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.impl.rcutils_logger import RcutilsLogger
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_stack.config.driver_parts import ActionGripper, CommandsGripper, Gripper, TrajectoryGripper
from robot_stack.control.drivers.gripper_way import CHANGED, GripperWay
from robot_stack.nodes.drivers.messages import duration_of, numbers_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called

REFUSED_S = 0.5
"""A goal that the server refused is sent again after this long, while it is still wanted."""
CANCELLED_S = 0.15
"""A server that cancels has said so after this long: franka_gripper looks 30 times a second."""


class Mover(Protocol):
    """What moves one gripper's joint, by the interface that its driver has."""

    def move(self, position: float) -> bool:
        """Send the joint to a position, rad or m; return False if that could not be sent."""
        ...

    def stop(self, position: float | None) -> None:
        """End the last motion where it is, told once per tick while nothing may move.

        Args:
            position: Measured while the joint moves; None while it stands.
        """
        ...

    @property
    def refused(self) -> bool:
        """Return whether the driver refused the last motion."""
        ...

    @property
    def gave_up(self) -> bool:
        """Return whether the driver took the last motion and ended it before it was done, though nobody stopped it."""
        ...


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


class PositionMover:
    """Moves the joint by what a function publishes: the newest position wins, and is held."""

    refused = gave_up = False
    """Nobody answers."""

    def __init__(self, publish: Callable[[float], None]) -> None:
        self._publish = publish
        self._way = GripperWay()

    def move(self, position: float) -> bool:
        """Publish the position; always True."""
        self._way.begin(time.monotonic_ns())
        self._publish(position)
        return True

    def stop(self, position: float | None) -> None:
        """Publish once where the joint is while it moves; a joint that stands goes on squeezing what it holds."""
        at = self._way.stop_at(position, time.monotonic_ns())
        if at is not None:
            self._publish(at)


class SentGoal:
    """One goal of an action, and how far its server has got with it."""

    def __init__(self, *, stops: bool) -> None:
        """Begin with a goal that was just sent.

        Args:
            stops: It sends the gripper to where it is, and is itself not to be stopped.
        """
        self.stops = stops
        self.answered = False
        """Whether the server has taken it, or refused it."""
        self._handle: Any = None
        self._result: Any = None
        self._cancelled_ns: int | None = None

    @property
    def given_up(self) -> bool:
        """Return whether the server ended it before it was done, though nobody stopped it."""
        unstopped = self._result is not None and self._cancelled_ns is None
        return unstopped and self._result.status != GoalStatus.STATUS_SUCCEEDED

    def runs_on(self, now_ns: int) -> bool:
        """Return whether the server has not ended the motion of a goal that is to be cancelled, and will not.

        One that is told no speed of the gripper takes it for stalled, and is done, soon after it has begun: Robotiq's.
        Another says that it cancels, and does not: xArm's.
        """
        if self._result is None:
            return self._cancelled_ns is not None and now_ns - self._cancelled_ns > CANCELLED_S * 1e9
        return not (self._result.status == GoalStatus.STATUS_CANCELED or self._result.result.reached_goal)

    def take(self, handle: Any, now_ns: int) -> None:
        """Note that the server has taken it; one that was cancelled before is cancelled now."""
        self._handle = handle
        handle.get_result_async().add_done_callback(self._on_result)
        if self._cancelled_ns is not None:
            self._cancelled_ns = now_ns
            handle.cancel_goal_async()

    def cancel(self, now_ns: int) -> None:
        """Cancel it once, now or when the server has taken it; one that is done is not affected."""
        if self._cancelled_ns is not None:
            return
        self._cancelled_ns = now_ns
        if self._handle is not None and self._result is None:
            self._handle.cancel_goal_async()

    def _on_result(self, answered: Any) -> None:
        self._result = answered.result()


class ActionMover:
    """Moves the joint by an action's goals, each of which replaces the one before."""

    def __init__(self, client: Any, goal_at: Callable[[float], Any]) -> None:
        self._client, self._goal_at = client, goal_at
        self._way = GripperWay()
        self._newest: SentGoal | None = None
        self.refused = False
        """Whether the server refused the newest goal."""

    @property
    def gave_up(self) -> bool:
        """Return whether the server ended the newest goal before it was done, though nobody stopped it."""
        return self._newest is not None and self._newest.given_up

    def move(self, position: float) -> bool:
        """Send a goal if the server is there."""
        if not self._client.server_is_ready():
            return False
        self._way.begin(time.monotonic_ns())
        self._send(position, stops=False)
        return True

    def stop(self, position: float | None) -> None:
        """Cancel the goal of a joint on its way; where that does not end it, send the joint once to where it is.

        A cancelled goal makes ros2_control hold the measured position, and ends the squeeze of a gripper that stands.
        The two are not sent together: while the Franka Hand stops, a goal for where it was a moment ago may open it.
        """
        goal = self._newest
        if goal is None or goal.stops:
            return
        now_ns = time.monotonic_ns()
        if not self._way.lasts(position, now_ns) and goal.answered:
            return
        goal.cancel(now_ns)
        if position is not None and goal.runs_on(now_ns) and self._client.server_is_ready():
            self._send(position, stops=True)

    def _send(self, position: float, *, stops: bool) -> None:
        self._newest = goal = SentGoal(stops=stops)
        self.refused = False
        self._client.send_goal_async(self._goal_at(position)).add_done_callback(
            lambda answered: self._on_answer(goal, answered.result())
        )

    def _on_answer(self, goal: SentGoal, handle: Any) -> None:
        goal.answered = True
        if not handle.accepted:
            self.refused = self.refused or goal is self._newest
            return
        now_ns = time.monotonic_ns()
        if goal is not self._newest:
            goal.cancel(now_ns)
        elif not goal.stops:
            self._way.begin(now_ns)
        goal.take(handle, now_ns)


def mover_of(wires: Wires, gripper: Gripper) -> Mover:
    """Build what moves the gripper that the robot file names: a forward controller, a trajectory's, or an action."""
    if isinstance(gripper, CommandsGripper):
        positions = wires.speak(Float64MultiArray, gripper.command)
        return PositionMover(lambda position: positions.publish(numbers_to_msg(np.array([position]))))
    if isinstance(gripper, TrajectoryGripper):
        trajectories, joint = wires.speak(JointTrajectory, gripper.command), gripper.joint
        duration = duration_of(gripper.duration_s)

        def publish_point_at_rest(position: float) -> None:
            point = JointTrajectoryPoint(positions=[position], velocities=[0.0], time_from_start=duration)
            trajectories.publish(JointTrajectory(joint_names=[joint], points=[point]))

        return PositionMover(publish_point_at_rest)
    if isinstance(gripper, ActionGripper):
        kind: Any = type_called(gripper.command_type, "action")
        client: Any = ActionClient(wires.node, kind, gripper.command)
        return ActionMover(client, lambda position: goal_of(kind, gripper, position))
    raise TypeError(f"gripper is {type(gripper).__name__}, must have a known interface")


class GripperFace:
    """The face of a driver's gripper, which passes each wanted opening on once, and again only if it was refused."""

    def __init__(self, mover: Mover, gripper: Gripper, logger: RcutilsLogger) -> None:
        self._mover, self._logger = mover, logger
        self._ends = (gripper.closed, gripper.open)
        self._command = gripper.command
        self._sent: float | None = None
        self._again_ns = 0
        self._said_given_up = False

    def follow(self, opening: float) -> None:
        """Send the newest wanted opening, in [0, 1]; again if it could not be sent, or was refused a moment ago.

        One that was given up is not sent again: a grasp may end so around what the fingers hold.
        """
        if self._mover.refused and self._sent is not None:
            self._logger.warning(f"gripper refuses goals on {self._command}, must take them; look after its driver")
            self._sent, self._again_ns = None, time.monotonic_ns() + round(REFUSED_S * 1e9)
        if self._mover.gave_up and self._sent is not None and not self._said_given_up:
            self._logger.warning(
                f"gripper gave up its goal {self._position(self._sent):.4g} on {self._command}, must reach it or hold "
                "something; look at what its driver says, and home a hand that was just powered on; it gets a goal "
                "again when another opening is wanted"
            )
            self._said_given_up = True
        if self._sent is not None and abs(opening - self._sent) < CHANGED:
            return
        if time.monotonic_ns() >= self._again_ns and self._mover.move(self._position(opening)):
            self._sent, self._said_given_up = opening, False

    def halt(self, moving_at: float | None) -> None:
        """Stop a gripper that is still on its way, and forget what was sent; see `Grips`."""
        self._mover.stop(None if moving_at is None else self._position(moving_at))
        self._sent, self._again_ns = None, 0

    def _position(self, opening: float) -> float:
        closed, opened = self._ends
        return closed + opening * (opened - closed)


def build_gripper(wires: Wires, gripper: Gripper) -> GripperFace:
    """Build the face of the gripper that the robot file names."""
    return GripperFace(mover_of(wires, gripper), gripper, wires.node.get_logger())
