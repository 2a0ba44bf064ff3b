"""An arm of Feetech servos at a serial port of this machine: state, commands and gripper without a topic.

The same three parts that a driver of ROS has, on one bus that a thread serves. Goals are joint angles, found as for a
joint trajectory controller. If this process dies, the servos go to their last goal, at most `max_lead_rad` ahead, and
hold it with torque.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import numpy as np

from robot_stack.config.feetech import So101Robot
from robot_stack.config.teleop import So101LeaderTeleop
from robot_stack.control.drivers.arm_sense import ArmSense, JointReader
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.driver_health import DriverHealth, Input
from robot_stack.control.drivers.feetech import (
    WHOLE_PERCENT,
    ServoCalibration,
    calibrations_of,
    chosen,
    goals_of,
)
from robot_stack.control.drivers.gripper_way import CHANGED, GripperWay
from robot_stack.control.drivers.handshake import Pace
from robot_stack.control.drivers.joint_trajectory import JointTrajectoryCore
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.nodes.drivers.driver import QuietDriver
from robot_stack.nodes.drivers.servo_bus import LeaderServos, ServoBus
from robot_stack.nodes.drivers.servo_line import calibration_text, open_line
from robot_stack.teleop.messages import JointPacket
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.workcell.build_arm import build_chain, build_frames, build_hard_limits, build_limits, joint_names

JOINT_STATES = "joint states"
NONE = np.empty(0)


class ServoArm:
    """One arm of servos: the sense, driver and gripper that share its bus.

    Attributes:
        sense: Keeps the state up to date.
        driver: Takes commands.
        gripper: Takes wanted openings; None where there is none.
    """

    def __init__(self, health: DriverHealth, name: str, robot: So101Robot) -> None:
        """Build the parts of the arm and start the thread that opens the port.

        Raises:
            ConfigError: If the calibration or the kinematics cannot be had.
        """
        names = [*joint_names(robot), *([] if robot.gripper is None else [robot.gripper.joint])]
        self._servos = servos_of(robot.servos.calibration, names)
        chain = build_chain(robot)
        if chain is None:
            raise ConfigError("kinematics of an arm of servos are missing, must be a table or a file; add them")
        bus = ServoBus(
            lambda: open_line(robot.servos, self._servos),
            self._servos,
            port=robot.servos.port,
            source=robot.servos.calibration,
            rate_hz=robot.rate_hz,
        )
        self.sense = ServoSense(health, name, robot, bus, self._servos, chain)
        arm = {joint: self._servos[joint] for joint in joint_names(robot)}
        self.driver = ServoDriver(robot, bus, arm, chain)
        self.gripper = None
        if robot.gripper is not None:
            self.gripper = ServoGripperFace(bus, robot.gripper.joint, self._servos[robot.gripper.joint])
        self._bus = bus
        bus.start()

    def close(self) -> None:
        """Give the port back; the arm holds its last goal."""
        self._bus.stop()


class ServoSense:
    """The state of the arm, as read by the servos' bus."""

    lag_s = 0.0
    """Nothing is stamped elsewhere."""

    def __init__(
        self,
        health: DriverHealth,
        name: str,
        robot: So101Robot,
        bus: ServoBus,
        servos: Mapping[str, ServoCalibration],
        chain: Chain,
    ) -> None:
        self.pace = Pace()
        """Of the readings."""
        port = robot.servos.port
        self._gripper = None
        if robot.gripper is not None:
            self._gripper = JointReader([robot.gripper.joint], port)
        joints = JointReader(joint_names(robot), port)  # one line has one arm: no second publisher to tell from it
        self.arm = ArmSense(name, build_frames(robot), joints, build_hard_limits(robot), gripper=self._gripper)
        self.arm.chain = chain
        self.arm.set_gripper_ends(0.0, WHOLE_PERCENT)
        self._health, self._bus, self._servos = health, bus, dict(servos)
        self._grips = set() if robot.gripper is None else {robot.gripper.joint}
        self._stamp_ns = 0
        remedy = "look at cable and power"
        timeout_s = robot.joint_states_timeout_s
        health.expect(Input(name=JOINT_STATES, topic=port, timeout_s=timeout_s, remedy=remedy))

    def poll(self, now_ns: int) -> None:
        """Take in what the bus has read since; called once per tick."""
        newest, problem = self._bus.newest, self._bus.problem
        kind = FaultKind.INPUT_MISSING if newest is None else FaultKind.INPUT_STALE
        self._health.explain(JOINT_STATES, Fault(kind=kind, text=problem) if problem else None)
        if newest is None or newest.stamp_ns == self._stamp_ns:
            return
        self._stamp_ns = newest.stamp_ns
        names = list(newest.ticks)
        values = np.array(values_of(newest.ticks, self._servos, self._grips))
        refusal = self.arm.joints.take(names, values, NONE, newest.stamp_ns, newest.stamp_ns)
        if self._gripper is not None:
            refusal = refusal or self._gripper.take(names, values, NONE, newest.stamp_ns, newest.stamp_ns)
        if refusal is not None:
            self._health.refused(JOINT_STATES, refusal, now_ns)
        else:
            self._health.heard(JOINT_STATES, newest.stamp_ns)
            self.pace.heard(newest.stamp_ns, now_ns)


class ServoDriver(QuietDriver):
    """A driver that sends joint goals to the servos' bus."""

    def __init__(self, robot: So101Robot, bus: ServoBus, servos: Mapping[str, ServoCalibration], chain: Chain) -> None:
        limits = build_limits(robot)
        solver = JointMotionSolver(chain, limits)
        self._core = JointTrajectoryCore(solver, limits, robot.max_lead_rad, robot.rate_hz)
        self._bus, self._servos = bus, dict(servos)
        self._broken: Fault | None = None

    def send(self, command: DriverCommand) -> None:
        """Send the joint goal of one tick; one that is not finite is a fault, and none is sent."""
        points = self._core.step(command)
        if points is None:
            return
        try:
            self._bus.want(goals_of(self._servos, points[0].angles))
        except RobotError as error:
            self._broken = Fault(kind=FaultKind.INPUT_INVALID, text=str(error))

    def fault(self) -> Fault | None:
        """Return what a servo reports, or the fault of a goal that could not be sent."""
        return self._bus.fault or self._broken

    def recover(self) -> bool:
        """Have the calibration checked again and torque set with the next goal; always True."""
        self._broken = None
        self._bus.rearm()
        return True

    def values(self) -> Mapping[str, object]:
        """Return which joint slows the arm down, and how the bus is."""
        return {"held_by": self._core.held_by, **self._bus.counters, **self._bus.extremes}


class ServoGripperFace:
    """A gripper on the bus, which sends each opening until another is wanted: the bus forgets what waited."""

    def __init__(self, bus: ServoBus, joint: str, servo: ServoCalibration) -> None:
        self._bus, self._joint, self._servo = bus, joint, servo
        self._way = GripperWay()
        self._sent: float | None = None

    def follow(self, opening: float) -> None:
        """Send the newest wanted opening, in [0, 1]."""
        if self._sent is None or abs(opening - self._sent) >= CHANGED:
            self._way.begin(time.monotonic_ns())
            self._sent = opening
        self._bus.want({self._joint: self._servo.ticks_of_percent(WHOLE_PERCENT * opening)})

    def halt(self, moving_at: float | None) -> None:
        """Send once the opening that is measured while the gripper moves, so that it stays there."""
        at = self._way.stop_at(moving_at, time.monotonic_ns())
        if at is not None:
            self._bus.want({self._joint: self._servo.ticks_of_percent(WHOLE_PERCENT * at)})
        self._sent = None


class LeaderPort:
    """An SO-101 leader in an operator's hand, read as joints; a port of `teleop.readers`."""

    def __init__(self, config: So101LeaderTeleop) -> None:
        """Open the port, take the torque off and begin to read.

        Raises:
            OSError: If the port is not there.
            RobotError: If a servo does not answer, or the calibration is none.
        """
        grip = [] if config.gripper is None else [config.gripper]
        self._servos = servos_of(config.servos.calibration, [*(joint.name for joint in config.joints), *grip])
        self._grips = set(grip)
        line = open_line(config.servos, self._servos)
        try:
            self._leader = LeaderServos(
                line, port=config.servos.port, rate_hz=config.rate_hz, timeout_s=config.timeout_s
            )
        except (OSError, RobotError):
            line.close()
            raise

    def read(self) -> list[JointPacket]:
        """Return all readings since the last call, angles in rad and the grip in percent.

        Raises:
            OSError: If the servos are gone or silent.
        """
        return [
            JointPacket(names=list(ticks), positions=values_of(ticks, self._servos, self._grips))
            for ticks in self._leader.read()
        ]

    def close(self) -> None:
        """Give the port back."""
        self._leader.close()


def values_of(ticks: Mapping[str, int], servos: Mapping[str, ServoCalibration], grips: Collection[str]) -> list[float]:
    """Return what each servo's ticks mean, in their order: an angle in rad, of a grip the opening in percent."""
    return [servos[name].percent(tick) if name in grips else servos[name].angle(tick) for name, tick in ticks.items()]


def servos_of(calibration: str, names: list[str]) -> dict[str, ServoCalibration]:
    """Read the calibration of the named servos out of its file.

    Raises:
        ConfigError: If the file is none, or one is missing in it.
    """
    return chosen(calibrations_of(calibration_text(calibration), calibration), names, calibration)
