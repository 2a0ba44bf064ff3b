"""ROS 2 face of real arms, between the safety process's commands and the drivers' topics.

What to send is decided in `control.drivers`, whether to send it in `control.drivers.driver_health`.

Obeys safety's commands and nothing else. Nothing here clears a fault but an operator's call of an arm's recovery.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import numpy as np
from std_srvs.srv import Trigger

from robot_stack import plugins
from robot_stack.config.drivers import DriverRobot, FrankaRobot, JointCommandedRobot, PoseTargetRobot, ServoRobot
from robot_stack.config.feetech import So101Robot
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.robot import RobotConfig
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.driver_health import DriverHealth
from robot_stack.control.drivers.handshake import Handshake
from robot_stack.control.kinematics.chain import Chain
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode
from robot_stack.nodes.diagnostics import Diagnosis, Due, RateMeter
from robot_stack.nodes.drivers.asking import Asking
from robot_stack.nodes.drivers.driver import Driver, Grips, OwnArm, RobotPart, Senses
from robot_stack.nodes.drivers.feetech import ServoArm
from robot_stack.nodes.drivers.grippers import build_gripper
from robot_stack.nodes.drivers.joint_commands import joint_driver
from robot_stack.nodes.drivers.pose_target import FrankaDriver, PoseTargetDriver
from robot_stack.nodes.drivers.sense import Sense
from robot_stack.nodes.drivers.servo import ServoDriver
from robot_stack.nodes.drivers.wires import Wires
from robot_stack.nodes.parameters import robot_parts
from robot_stack.nodes.robot.arm_topics import ArmTopics
from robot_stack.nodes.ros_time import asleep_ns
from robot_stack.plugins import Registry
from robot_stack.types.errors import ConfigError
from robot_stack.types.finding import Level
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import RobotState
from robot_stack.workcell.driver_questions import questions_about

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


LOOK_HZ = 5.0
"""How often the graph is read."""
LARGEST_LAG_S = 0.05
GONE_S = 1.0
"""A driver that was silent for so long may be another one when it is back: it is asked anew."""
UNKNOWN_PLACE = (FaultKind.CONTRADICTION, FaultKind.SECOND_SENDER)
"""With these nobody knows where the arm is, and it is not told to be anywhere."""
SUSPENDED_NS = 200_000_000
"""So long a suspension of the machine outdates a command; less is a difference between two readings of its clocks."""
LONGEST_STEP_S = 0.04
"""A late tick moves a target by no more than this long."""


class DriverRobotNode(StackNode):
    """The robot node of a real cell: its arms, each behind its driver."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("robot", settings.namespace, key=settings.key)
        self.show_settings(settings.run, robot_parts(settings.run))
        timeout_s = settings.run.safety.output_timeout_s
        self._arms = [DrivenArm(self, name, robot, timeout_s) for name, robot in settings.run.robots.items()]

    def destroy_node(self) -> None:
        """Give back what the drivers hold, then end the node."""
        for arm in self._arms:
            arm.close()
        super().destroy_node()

    def diagnose(self) -> list[Diagnosis]:
        """Return diagnoses of each arm, its driver, its clocks, and of QoS that does not fit."""
        return [found for arm in self._arms for found in arm.diagnose()]

    def deactivate(self) -> None:
        """Send each driver a last command that brings its arm to rest, whatever goes wrong with another's."""
        with ExitStack() as words:
            for arm in self._arms:
                words.callback(arm.rest)

    def safe_stop(self, reason: str) -> None:
        """Bring every arm to rest, as when the node is deactivated."""
        self.deactivate()


class DrivenArm:
    """One arm behind its driver, which hears commands only while the node is active."""

    def __init__(self, node: StackNode, name: str, robot: RobotConfig, output_timeout_s: float) -> None:
        """Connect to the driver's topics, offer the recovery service and start the arm's tick.

        Raises:
            ConfigError: If the robot is no driver's, or what its file asks for cannot be had.
        """
        if not isinstance(robot, DriverRobot):
            raise ConfigError(f"backend of arm {name} is {robot.backend!r}, must be a driver's; name another robot")
        self._node, self._name, self._robot = node, name, robot
        self._health = DriverHealth(node.resolve_service_name(topics.recover(name)))
        self._wires = Wires(node, self._health)
        self._own = own = build_own_arm(self._health, name, robot)
        self._sense: Senses = Sense(self._wires, name, robot) if own is None else own.sense
        self._driver: Driver | None = None if own is None else own.driver
        self._gripper: Grips | None = None if own is None else own.gripper
        if own is None:
            self._connect_driver()
            self._gripper = None if robot.gripper is None else build_gripper(self._wires, robot.gripper)
        handshake = Handshake(questions_about(robot, node.resolve_topic_name), time.monotonic_ns())
        self._asking = Asking(node, name, handshake, self._sense.pace)
        self._face = ArmTopics(node, name, robot, output_timeout_s)
        self._meter = RateMeter(robot.rate_hz)
        self._look_due = Due(LOOK_HZ)
        self._ticked_ns = time.monotonic_ns()
        self._asleep_ns = asleep_ns()
        self._published_ns = 0
        node.create_service(Trigger, topics.recover(name), self._on_recover)
        node.steady_timer(robot.rate_hz, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Return the diagnoses of this arm: its topics, driver, clocks, handshake and QoS that does not fit."""
        now_ns = time.monotonic_ns()
        said = {} if self._driver is None else self._driver.values()
        values = {**self._meter.values(now_ns), **self._health.values(now_ns), **said}
        driver = Diagnosis(task=f"driver of {self._name}", values=values)
        found = [self._face.diagnose(), driver, self._clocks(), self._asking.diagnose()]
        for topic, sentence in sorted(self._wires.mismatches.items()):
            found.append(Diagnosis(task=f"qos of {topic}", level=Level.FAIL, message=sentence))
        return found

    def close(self) -> None:
        """Give back the port of an arm that this process drives by itself."""
        if self._own is not None:
            self._own.close()

    def rest(self) -> None:
        """Forget the commands and send the driver a last one that brings the arm to rest where it is."""
        self._face.watchdog.reset()
        if self._driver is not None:
            now_ns = time.monotonic_ns()
            self._driver.send(self._command(self._sense.arm.state(), self._reason(now_ns), now_ns, live=False))

    def _clocks(self) -> Diagnosis:
        """Judge the age of the joint states by their stamps.

        What is fresh by arrival may still be old, if a network or a driver holds it back.
        """
        lag_s = self._sense.lag_s
        values = {"joint_states_lag_ms": round(lag_s * 1e3, 1)}
        if abs(lag_s) <= LARGEST_LAG_S:
            return Diagnosis(task=f"clocks of {self._name}", values=values)
        text = (
            f"stamps of joint states are {lag_s * 1e3:.0f} ms behind this machine's clock, must be within "
            f"{LARGEST_LAG_S * 1e3:.0f}; synchronise the clocks, or look for what delays them"
        )
        return Diagnosis(task=f"clocks of {self._name}", level=Level.WARN, message=text, values=values)

    def _connect_driver(self) -> None:
        self._driver = build_driver(self._wires, self._robot, self._sense.arm.chain)

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        self._forget_if_suspended()
        self._face.look_for_rivals(now_ns)
        self._sense.poll(now_ns)
        if self._driver is None:
            self._connect_driver()
        if self._look_due.now(now_ns):
            self._wires.look(now_ns)
            if any(self._health.age_s(each.name, now_ns) > GONE_S for each in self._health.silent(now_ns)):
                self._asking.restart(now_ns)
        self._asking.poll(now_ns)
        state = self._sense.arm.state()
        if self._driver is not None:
            self._health.report(self._driver.fault(), now_ns)
        reason = self._reason(now_ns)
        live = reason is None and state is not None and self._face.watchdog.aims(now_ns)
        command = self._command(state, reason, now_ns, live=live)
        if self._driver is not None and self._node.active:
            self._driver.send(command)
        self._face.publish_applied(command.twist * command.speed_share, now_ns)
        self._pass_on_gripper(live=live)
        self._face.say_fault(reason)
        if state is not None and state.stamp_ns > self._published_ns:
            self._published_ns = state.stamp_ns
            self._face.publish_state(state, now_ns)

    def _forget_if_suspended(self) -> None:
        """Forget the command that this machine was suspended with: by its steady clock it is fresh still."""
        asleep = asleep_ns()
        if asleep - self._asleep_ns > SUSPENDED_NS:
            self._node.get_logger().warning(f"machine was suspended for {(asleep - self._asleep_ns) / 1e9:.0f} s")
            self._face.watchdog.reset()
        self._asleep_ns = max(asleep, self._asleep_ns)

    def _command(self, state: RobotState | None, reason: Fault | None, now_ns: int, *, live: bool) -> DriverCommand:
        elapsed_s, self._ticked_ns = (now_ns - self._ticked_ns) / 1e9, now_ns
        heard = not self._health.silent(now_ns) and (reason is None or reason.kind not in UNKNOWN_PLACE)
        return DriverCommand(
            twist=self._face.watchdog.twist(now_ns) if live else np.zeros(6),
            live=live,
            pose=state.T_base_tcp if state is not None and heard else None,
            angles=state.joints_rad if state is not None and heard else None,
            dt_s=min(max(elapsed_s, 1e-4), LONGEST_STEP_S),
            speed_share=1.0 if self._driver is None else self._driver.speed_share,
        )

    def _reason(self, now_ns: int) -> Fault | None:
        """Return why the arm must not be moved: fault, silence, contradiction, a waiting driver, deaf controllers."""
        driver = self._driver
        return (
            self._health.reason(now_ns)
            or self._asking.contradiction()
            or self._sense.arm.disagreement()
            or (None if driver is None else driver.waiting())
            or self._wires.reason()
            or self._asking.fault(now_ns)
        )

    def _pass_on_gripper(self, *, live: bool) -> None:
        """Pass wanted openings on to the gripper while the arm may move, and stop it otherwise.

        No opening outlives a fault or a HOLD: a hand may be between the fingers.
        """
        if self._gripper is None:
            return
        if not live:
            self._face.forget_gripper()
        opening = self._face.gripper
        if opening is None:
            self._gripper.halt(self._sense.arm.moving_opening())
        else:
            self._gripper.follow(opening)

    def _on_recover(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Try to clear the driver's fault for an operator; the answer says why not, or what happens now."""
        now_ns = time.monotonic_ns()
        if self._driver is None:
            response.success, response.message = (
                False,
                str(self._health.reason(now_ns) or "driver has not been heard yet"),
            )
            return response
        asked = self._driver.recover()
        self._health.report(self._driver.fault(), now_ns)
        refusal = self._health.recover(now_ns, asked_driver=asked)
        response.success = refusal is None
        well = self._health.silences(now_ns) or "no fault"
        going_on = well if self._health.fault is None else "driver is recovering"
        response.message = going_on if refusal is None else str(refusal)
        self._node.get_logger().info(f"{self._name}: recovery asked for: {response.message}")
        return response
