"""Stand-ins for drivers that obey the drivers' own rules, on an arm in MuJoCo. What is refused is refused silently
towards the sender, as a driver does, and written down here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from ruamel.yaml import YAML
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray, Int8, UInt8
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_stack.nodes.conversion import pose_from_msg
from robot_stack.nodes.drivers.messages import pose_to_msg
from robot_stack.nodes.qos import LATCHED
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import rotate_twist
from tests.conformance.kinematic_arm import KinematicArm

CONTEXT: Context | None = None
"""A participant of their own, as another process has it. The fixture `ros` sets it."""
RATE_HZ = 100.0
SYSTEM_DEFAULT = 10
"""rclcpp's SystemDefaultsQoS: RELIABLE, VOLATILE."""
SENSOR = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
JOINTS = [f"fr3_joint{number}" for number in range(1, 8)]
FINGER = "fr3_finger_joint1"
FINGER_OPEN_M = 0.04
GRIPPER_PER_S = 1.0
"""How fast it opens: all the way in a second."""


@dataclass(slots=True)
class Heard:
    """What came in: every number of every command, with its arrival, and why some were refused."""

    commands: list[tuple[int, np.ndarray]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, values: np.ndarray) -> None:
        self.commands.append((time.monotonic_ns(), np.asarray(values, dtype=np.float64)))


class DriverDouble(Node):
    """Joint states, a gripper, and an arm that stands still."""

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__("driver", context=CONTEXT, start_parameter_services=False)
        self.arm = KinematicArm() if arm is None else arm
        self.heard = Heard()
        self.gripper_wishes: list[float] = []
        self._gripper_goal = self.arm.opening
        self.muted = False
        self.late_s = 0.0
        self.joint_names = [*JOINTS, FINGER, "another_robots_joint"]
        self.broken_joint: int | None = None
        self._rng = np.random.default_rng(0)
        self._stepped_ns = time.monotonic_ns()
        self._states = self.create_publisher(JointState, "/joint_states", SYSTEM_DEFAULT)
        self._poses = self.create_publisher(PoseStamped, "/current_pose", SENSOR)
        self._wrenches = self.create_publisher(WrenchStamped, "/wrench", SENSOR)
        self.create_subscription(Float64MultiArray, "/gripper/commands", self._on_gripper, SYSTEM_DEFAULT)
        self.create_subscription(JointTrajectory, "/gripper/joint_trajectory", self._on_gripper_way, SYSTEM_DEFAULT)
        self.create_timer(1.0 / RATE_HZ, self._step, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def move(self, now_ns: int, dt_s: float) -> None:
        """Set the arm's speeds for this step."""

    def _on_gripper(self, msg: Float64MultiArray) -> None:
        self._move_gripper(msg.data[0])

    def _on_gripper_way(self, msg: JointTrajectory) -> None:
        if msg.joint_names == [FINGER] and not any(msg.points[-1].velocities):
            self._move_gripper(msg.points[-1].positions[0])

    def _move_gripper(self, position: float) -> None:
        self.gripper_wishes.append(float(position))
        self._gripper_goal = position / FINGER_OPEN_M

    def _step(self) -> None:
        now_ns = time.monotonic_ns()
        dt_s, self._stepped_ns = (now_ns - self._stepped_ns) / 1e9, now_ns
        self.move(now_ns, min(dt_s, 0.05))
        step = GRIPPER_PER_S * min(dt_s, 0.05)
        self.arm.opening += float(np.clip(self._gripper_goal - self.arm.opening, -step, step))
        self.arm.advance(min(dt_s, 0.05))
        if not self.muted:
            self._publish()

    def _publish(self) -> None:
        stamp = (self.get_clock().now() - Duration(seconds=self.late_s)).to_msg()
        arm = self.arm
        positions = np.array([*arm.angles, arm.opening * FINGER_OPEN_M, 1.0])
        speeds = np.array([*arm.speeds, 0.0, 0.0])
        if self.broken_joint is not None:
            positions[self.broken_joint] = np.nan
        order = self._rng.permutation(len(positions))
        msg = JointState(position=positions[order].tolist(), velocity=speeds[order].tolist())
        msg.header.stamp, msg.name = stamp, [self.joint_names[place] for place in order]
        self._states.publish(msg)
        pose = pose_to_msg(arm.pose(), msg.header)
        pose.header.frame_id = "base"
        self._poses.publish(pose)
        wrench = WrenchStamped()
        wrench.header.stamp, wrench.header.frame_id = stamp, "base"
        wrench.wrench.force.z = 5.0
        self._wrenches.publish(wrench)


class Impostor(Node):
    """Somebody else who publishes joint states of an arm with the same names: at zero, with stamps of now."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("impostor", context=CONTEXT, start_parameter_services=False)
        self._names = names
        self._states = self.create_publisher(JointState, "/joint_states", SYSTEM_DEFAULT)
        self.create_timer(0.05, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _publish(self) -> None:
        msg = JointState(name=self._names, position=[0.0] * len(self._names), velocity=[0.0] * len(self._names))
        msg.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(msg)


def servo_parameters(**changes: object) -> dict[str, object]:
    """What Servo's node answers when it is started as in its maker's example, under its own names of parameters."""
    facts = YAML(typ="safe").load(Path(__file__).parents[1] / "makers" / "robots" / "panda.yaml")["facts"]
    says = {fact["field"]: fact["says"] for fact in facts if "says" in fact}
    found = {
        "command_in_type": says["command_in"],
        "scale.linear": says["linear_scale_m_s"],
        "scale.rotational": says["rotational_scale_rad_s"],
        "apply_twist_commands_about_ee_frame": True,
    }
    return {f"moveit_servo.{name}": value for name, value in {**found, **changes}.items()}


class ServoDouble(DriverDouble):
    """MoveIt Servo: ages by header stamp, a known frame, speeds cut at its scales, a status while not paused."""

    TIMEOUT_NS = 100_000_000
    PARAMETERS = servo_parameters()
    ANSWERS = True

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__(arm)
        self.paused = False
        self.halted = 0
        self.parameters: dict[str, object] = dict(self.PARAMETERS)
        self._newest: TwistStamped | None = None
        self._statuses = self.create_publisher(Int8, "/servo_node/status", SYSTEM_DEFAULT)
        self.create_subscription(TwistStamped, "/servo_node/delta_twist_cmds", self._on_twist, SYSTEM_DEFAULT)
        self.create_service(Trigger, "/servo_node/unpause_servo", self._on_unpause)  # Humble's, as is the status
        if self.ANSWERS:
            self.create_service(GetParameters, "/servo_node/get_parameters", self._on_get_parameters)

    @property
    def scale(self) -> np.ndarray:
        """Of the parameters, shape (6,)."""
        names = ("moveit_servo.scale.linear", "moveit_servo.scale.rotational")
        linear, rotational = (float(self.PARAMETERS.get(name, 1.0)) for name in names)  # type: ignore[arg-type]
        return np.array([linear] * 3 + [rotational] * 3)

    def _on_get_parameters(
        self, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        response.values = [_parameter(self.parameters.get(name)) for name in request.names]
        return response

    def move(self, now_ns: int, dt_s: float) -> None:
        status = self.halted
        self.arm.speeds = np.zeros(7)
        msg = self._newest
        if msg is not None and not self.paused and not self.halted:
            age_ns = (self.get_clock().now() - Time.from_msg(msg.header.stamp, self.get_clock().clock_type)).nanoseconds
            entries = _twist_of(msg)
            if age_ns < self.TIMEOUT_NS:
                status = self._follow(msg.header.frame_id, entries)
        if not self.paused:
            self._statuses.publish(Int8(data=status))

    def _follow(self, frame: str, entries: np.ndarray) -> int:
        if frame not in ("base", "tcp") or not np.isfinite(entries).all() or not self.takes(entries):
            self.heard.refused.append(f"{frame} {entries}")
            return -1
        twist = self.speeds(entries)
        self.arm.follow(rotate_twist(twist, self.arm.pose().matrix) if frame == "tcp" else twist)
        return 0

    def takes(self, entries: np.ndarray) -> bool:
        """Any finite speed."""
        return True

    def speeds(self, entries: np.ndarray) -> np.ndarray:
        """In speed units; what is faster than a scale is shortened."""
        parts = []
        for part, limit in ((entries[:3], self.scale[0]), (entries[3:], self.scale[3])):
            parts.append(part / max(1.0, float(np.linalg.norm(part)) / limit))
        return np.concatenate(parts)

    def _on_twist(self, msg: TwistStamped) -> None:
        self.heard.add(_twist_of(msg))
        self._newest = msg

    def _on_unpause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.paused, response.success = False, True
        return response

    def begin_fault(self) -> None:
        """A collision ahead."""
        self.halted = 4  # as Humble counts

    def end_fault(self) -> None:
        """An operator has cleared the way."""
        self.halted = 0


class UnitlessDouble(ServoDouble):
    """command_in_type unitless: entries are shares of the scales, and one beyond 1 loses the whole command."""

    PARAMETERS = servo_parameters(**{"command_in_type": "unitless", "scale.linear": 0.4, "scale.rotational": 1.0})

    def takes(self, entries: np.ndarray) -> bool:
        """Within 1."""
        return bool(np.abs(entries).max() <= 1.0 + 1e-9)

    def speeds(self, entries: np.ndarray) -> np.ndarray:
        """Times the scales."""
        return entries * self.scale


def _parameter(value: object) -> ParameterValue:
    """As a node answers: a parameter that it does not have is not set."""
    if isinstance(value, bool):
        return ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
    if isinstance(value, str):
        return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)
    if isinstance(value, float | int):
        return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=float(value))
    return ParameterValue(type=ParameterType.PARAMETER_NOT_SET)


class PoseDouble(DriverDouble):
    """A Cartesian controller: takes RELIABLE poses of one publisher, clips the error, holds the last for ever."""

    GAIN = 20.0
    CLIP = np.array([0.05] * 3 + [0.3] * 3)

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__(arm)
        self.enabled = True
        self._target = self.arm.pose()
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        self.create_subscription(PoseStamped, "/target_pose", self._on_target, qos)

    def move(self, now_ns: int, dt_s: float) -> None:
        here = self.arm.pose()
        error = np.concatenate(
            [
                self._target.position_m - here.position_m,
                (self._target.rotation * here.rotation.inv()).as_rotvec(),
            ]
        )
        self.arm.follow(self.GAIN * np.clip(error, -self.CLIP, self.CLIP) if self.enabled else np.zeros(6))

    def _on_target(self, msg: PoseStamped) -> None:
        point, turn = msg.pose.position, msg.pose.orientation
        self.heard.add(np.array([point.x, point.y, point.z, turn.x, turn.y, turn.z, turn.w]))
        if not self.enabled or self.count_publishers("/target_pose") > 1:
            return
        try:
            self._target = pose_from_msg(msg)
        except SpecError as error:
            self.heard.refused.append(str(error))
            self.broken_target()

    def broken_target(self) -> None:
        """Poses that are none are dropped."""


class FrankaDouble(PoseDouble):
    """The same behind a Franka: an error stays until recovery is asked for, and then all starts where the arm is."""

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__(arm)
        self.mode = 2
        self.recoveries = 0
        self._blocked = False
        self._modes = self.create_publisher(UInt8, "/franka_robot_state_broadcaster/robot_state", SENSOR)
        self.create_service(Trigger, "/error_recovery", self._on_recovery)

    def move(self, now_ns: int, dt_s: float) -> None:
        super().move(now_ns, dt_s)
        if not self.muted:
            self._modes.publish(UInt8(data=self.mode))

    def broken_target(self) -> None:
        self.begin_fault()

    def begin_fault(self) -> None:
        """A reflex."""
        self.mode, self.enabled, self._blocked = 4, False, True

    def end_fault(self) -> None:
        """An operator has freed the arm; the error itself stays."""
        self._blocked = False

    def _on_recovery(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.recoveries += 1
        response.success = not self._blocked
        if not self._blocked:
            self.mode, self.enabled, self._target = 2, True, self.arm.pose()
        return response


class TrajectoryDouble(DriverDouble):
    """A JTC: names as a set, rising times, an end at rest; cubic from where it is; holds the last point."""

    TOPIC = "/joint_trajectory_controller/joint_trajectory"

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__(arm)
        self.active = True
        self.rest()
        self.create_subscription(JointTrajectory, self.TOPIC, self._on_trajectory, SYSTEM_DEFAULT)

    def move(self, now_ns: int, dt_s: float) -> None:
        if not self.active:
            self.arm.speeds = np.zeros(7)
            return
        wanted, _ = self._sample((now_ns - self._began_ns) / 1e9)
        self.arm.speeds = (wanted - self.arm.angles) / max(dt_s, 1e-4)

    def rest(self) -> None:
        """Hold where the arm is."""
        self._began_ns = time.monotonic_ns()
        self._points = [(0.0, self.arm.angles.copy(), np.zeros(7))]

    def _sample(self, at_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Cubic Hermite between points; the last one is held."""
        before = self._points[0]
        for after in self._points[1:]:
            if at_s < after[0]:
                span = after[0] - before[0]
                u = (at_s - before[0]) / span
                h = (2 * u**3 - 3 * u**2 + 1, u**3 - 2 * u**2 + u, -2 * u**3 + 3 * u**2, u**3 - u**2)
                d = (6 * u**2 - 6 * u, 3 * u**2 - 4 * u + 1, -6 * u**2 + 6 * u, 3 * u**2 - 2 * u)
                parts = (before[1], span * before[2], after[1], span * after[2])
                return sum(a * b for a, b in zip(h, parts)), sum(a * b for a, b in zip(d, parts)) / span
            before = after
        return before[1], np.zeros(7)

    def _on_trajectory(self, msg: JointTrajectory) -> None:
        for point in msg.points:
            self.heard.add(np.array([*point.positions, *point.velocities]))
        if not self.active:
            return
        refusal = self._refusal(msg)
        if refusal:
            self.heard.refused.append(refusal)
            return
        now_ns = time.monotonic_ns()
        start = self._sample((now_ns - self._began_ns) / 1e9)
        self._began_ns = now_ns
        places = [msg.joint_names.index(name) for name in JOINTS]
        self._points = [(0.0, *start)]
        for point in msg.points:
            at_s = point.time_from_start.sec + point.time_from_start.nanosec / 1e9
            self._points.append((at_s, np.array(point.positions)[places], np.array(point.velocities)[places]))

    @staticmethod
    def _refusal(msg: JointTrajectory) -> str:
        times = [point.time_from_start.sec + point.time_from_start.nanosec / 1e9 for point in msg.points]
        values = np.array([[*point.positions, *point.velocities] for point in msg.points])
        if set(msg.joint_names) != set(JOINTS):
            return f"joints {msg.joint_names}"
        if not times or times[0] <= 0.0 or (np.diff(times) <= 0.0).any():
            return f"times {times}"
        if values.shape != (len(times), 14) or not np.isfinite(values).all():
            return f"values {values}"
        if np.abs(values[-1, 7:]).max() > 0.0:
            return "velocity at the end"
        if (msg.header.stamp.sec, msg.header.stamp.nanosec) != (0, 0):
            return "stamp is set"
        return ""


class VelocityDouble(DriverDouble):
    """A forward velocity controller: the newest finite speeds, for ever."""

    def __init__(self, arm: KinematicArm | None = None) -> None:
        super().__init__(arm)
        self.active = True
        self.rest()
        self.create_subscription(
            Float64MultiArray, "/forward_velocity_controller/commands", self._on_speeds, SYSTEM_DEFAULT
        )

    def move(self, now_ns: int, dt_s: float) -> None:
        self.arm.speeds = self._speeds

    def rest(self) -> None:
        """Hold where the arm is."""
        self._speeds = np.zeros(7)

    def _on_speeds(self, msg: Float64MultiArray) -> None:
        speeds = np.array(msg.data)
        self.heard.add(speeds)
        if speeds.shape != (7,) or not np.isfinite(speeds).all():
            self.heard.refused.append(str(speeds))
        elif self.active:
            self._speeds = speeds


class UrWords(DriverDouble):
    """What a UR says of itself, latched."""

    def __init__(self, arm: KinematicArm | None = None, *, durability: DurabilityPolicy | None = None) -> None:
        super().__init__(arm)
        qos = LATCHED if durability is None else QoSProfile(depth=1, durability=durability)
        self._running = self.create_publisher(Bool, "/io_and_status_controller/robot_program_running", qos)
        self._modes = self.create_publisher(UInt8, "/io_and_status_controller/safety_mode", LATCHED)
        self._scalings = self.create_publisher(
            Float64, "/speed_scaling_state_broadcaster/speed_scaling", SYSTEM_DEFAULT
        )
        self.scaling_percent = 100.0
        self.end_fault()

    def _publish(self) -> None:
        super()._publish()
        self._scalings.publish(Float64(data=self.scaling_percent))

    def begin_fault(self) -> None:
        """A protective stop: it also stops the program, and with it the controllers."""
        self.active = False
        self._modes.publish(UInt8(data=3))
        self._running.publish(Bool(data=False))

    def end_fault(self) -> None:
        """An operator clears it on the pendant and starts the program."""
        self.rest()
        self.active = True
        self._modes.publish(UInt8(data=1))
        self._running.publish(Bool(data=True))


class UrDouble(UrWords, TrajectoryDouble):
    """A scaled JTC that is active only while the program runs."""

    TOPIC = "/scaled_joint_trajectory_controller/joint_trajectory"


class UrVelocityDouble(UrWords, VelocityDouble):
    """The same with a forward velocity controller."""


def _twist_of(msg: TwistStamped) -> np.ndarray:
    linear, angular = msg.twist.linear, msg.twist.angular
    return np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z])
