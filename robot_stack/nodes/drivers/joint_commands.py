"""Faces of controllers that follow joints: trajectories, speeds, and Universal Robots in front of either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from std_msgs.msg import Bool, Float64, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from robot_stack.config.drivers import DriverRobot, ForwardVelocityRobot, JointTrajectoryRobot, UrRobot
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.joint_trajectory import ForwardVelocityCore, JointTrajectoryCore
from robot_stack.control.drivers.ur import UrStatus
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.nodes.drivers.driver import QuietDriver
from robot_stack.nodes.drivers.messages import numbers_to_msg, trajectory_to_msg
from robot_stack.nodes.drivers.wires import Wires, type_called
from robot_stack.nodes.qos import LATCHED, SAMPLED
from robot_stack.types.reason import Fault
from robot_stack.workcell.build_arm import build_limits, joint_names


class JointDriver(QuietDriver):
    """The face of a controller of trajectories, or of joint speeds, that says nothing of itself."""

    def __init__(self, wires: Wires, robot: DriverRobot, chain: Chain, topic: str, lead_rad: float | None) -> None:
        """Set up the core and the publisher of its commands.

        Args:
            wires: To the driver.
            robot: Its file.
            chain: Of the arm.
            topic: Where the controller hears commands.
            lead_rad: How far a trajectory may be ahead of the arm; None for a controller of speeds, whose joints must
                have the order of the robot file's.
        """
        limits = build_limits(robot)
        solver = JointMotionSolver(chain, limits)
        self._names = joint_names(robot)
        self._core: JointTrajectoryCore | ForwardVelocityCore
        if lead_rad is None:
            self._core = ForwardVelocityCore(solver, len(robot.joints))
            self._commands = wires.speak(Float64MultiArray, topic)
        else:
            self._core = JointTrajectoryCore(solver, limits, lead_rad, robot.rate_hz)
            self._commands = wires.speak(JointTrajectory, topic)

    def send(self, command: DriverCommand) -> None:
        """Publish the command of one tick: speeds always, a trajectory while there is motion or it comes to rest."""
        if isinstance(self._core, ForwardVelocityCore):
            self._commands.publish(numbers_to_msg(self._core.step(command)))
            return
        points = self._core.step(command)
        if points is not None:
            self._commands.publish(trajectory_to_msg(self._names, points))

    def values(self) -> Mapping[str, object]:
        """Return which joint slows the arm down."""
        return {"held_by": self._core.held_by}


class UrDriver(JointDriver):
    """The face of ur_robot_driver: the arm may move while its program runs and its safety controller is content."""

    def __init__(self, wires: Wires, robot: UrRobot, chain: Chain) -> None:
        by_speeds = robot.control == "forward_velocity"
        topic = robot.speeds if by_speeds else robot.trajectory_topic
        super().__init__(wires, robot, chain, topic, None if by_speeds else robot.max_lead_rad)
        name = wires.node.resolve_topic_name
        self._status = UrStatus(name(robot.program_running), name(robot.safety_mode))
        kind = type_called(robot.safety_mode_type)
        for message, topic, what, take, qos in (
            (Bool, robot.program_running, "messages of the UR's program", self._on_program, LATCHED),
            (kind, robot.safety_mode, "safety modes of the UR", self._on_safety_mode, LATCHED),
            (Float64, robot.speed_scaling, "speed scalings of the UR", self._on_speed_scaling, SAMPLED),
        ):
            wires.listen(message, topic, what, take, timeout_s=None, qos=qos)

    @property
    def speed_share(self) -> float:
        """Return the share of the wanted speed that the pendant lets happen, in [0, 1]."""
        return self._status.speed_share

    def fault(self) -> Fault | None:
        """Return a stop of the safety controller, or of the program."""
        return self._status.fault()

    def waiting(self) -> Fault | None:
        """Return that the program has not been started, if so."""
        return self._status.waiting()

    def values(self) -> Mapping[str, object]:
        """Return the safety mode, program state and speed scaling that the UR reports."""
        status = self._status
        said = {
            "safety_mode": status.safety_mode,
            "program_running": status.running,
            "speed_scaling_percent": round(100.0 * status.speed_share, 1),
        }
        return {**super().values(), **said}

    def _on_program(self, msg: Bool, _: int) -> None:
        self._status.take_program(bool(msg.data))

    def _on_safety_mode(self, msg: Any, _: int) -> None:
        self._status.take_safety_mode(int(msg.mode if hasattr(msg, "mode") else msg.data))

    def _on_speed_scaling(self, msg: Float64, _: int) -> Fault | None:
        return self._status.take_speed_scaling(float(msg.data))


def joint_driver(wires: Wires, robot: DriverRobot, chain: Chain) -> JointDriver:
    """Build the face of a driver that is sent joint commands."""
    if isinstance(robot, JointTrajectoryRobot):
        return JointDriver(wires, robot, chain, robot.command, robot.max_lead_rad)
    if isinstance(robot, ForwardVelocityRobot):
        return JointDriver(wires, robot, chain, robot.command, None)
    if isinstance(robot, UrRobot):
        return UrDriver(wires, robot, chain)
    raise TypeError(f"robot is {type(robot).__name__}, must be one that is sent joint commands")
