"""A listener to a driver's messages about an arm's state, which keeps an `ArmSense` up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_stack.config.driver_parts import PoseFromTf, PoseFromTopic
from robot_stack.config.drivers import DriverRobot
from robot_stack.config.kinematics import UrdfTopic
from robot_stack.control.drivers.arm_sense import ArmSense, JointReader
from robot_stack.control.drivers.driver_health import Input
from robot_stack.control.drivers.handshake import Pace
from robot_stack.nodes.conversion import pose_from_msg, ros_ns_of
from robot_stack.nodes.drivers.messages import joint_values, wrench_from_msg
from robot_stack.nodes.drivers.wires import Wires
from robot_stack.nodes.qos import LATCHED, SAMPLED_EACH
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.workcell.build_arm import (
    build_chain,
    build_frames,
    build_hard_limits,
    build_limits,
    described_chain,
    joint_names,
)

POSE = "poses of the TCP"


class Sense:
    """The subscriptions for one arm's state."""

    def __init__(self, wires: Wires, arm: str, robot: DriverRobot) -> None:
        """Subscribe to the driver's joint states, pose, wrench and robot description, as the robot file says.

        Raises:
            ConfigError: If the kinematics do not fit, or TF is asked for where there is none.
        """
        self._wires = wires
        self._robot = robot
        self._lag_ns = 0
        self.pace = Pace()
        """Of the joint states that can be used."""
        topic = wires.node.resolve_topic_name(robot.joint_states)
        gripper = None
        if robot.gripper is not None:
            gripper_topic = wires.node.resolve_topic_name(robot.gripper.joint_states or robot.joint_states)
            gripper = JointReader([robot.gripper.joint], gripper_topic)
        pose_topic = ""
        if isinstance(robot.pose, PoseFromTopic):
            pose_topic = wires.node.resolve_topic_name(robot.pose.topic)
        elif isinstance(robot.pose, PoseFromTf):
            pose_topic = "/tf"
        self.arm = ArmSense(
            arm,
            build_frames(robot),
            JointReader(joint_names(robot), topic, build_limits(robot)),
            build_hard_limits(robot),
            pose_topic=pose_topic,
            gripper=gripper,
        )
        self.arm.chain = build_chain(robot)
        self._listen_to_joints(gripper)
        self._listen_to_pose()
        self._listen_to_wrench()
        if isinstance(robot.kinematics, UrdfTopic):
            self._listen_to_description(robot.kinematics)

    @property
    def lag_s(self) -> float:
        """Return how far the joint states' stamps are behind this machine's clock, in s; 0 if they have none."""
        return self._lag_ns / 1e9

    def poll(self, now_ns: int) -> None:
        """Look up what is not received, the pose in TF; called once per tick."""
        if self._tf is not None:
            self._tf.look_up(now_ns)

    def _listen_to_joints(self, gripper: JointReader | None) -> None:
        robot, wires = self._robot, self._wires
        timeout_s = robot.joint_states_timeout_s
        clock, read = wires.node.get_clock(), _reads(self.arm.joints)

        def take(msg: JointState, now_ns: int) -> Fault | None:
            stamp_ns = ros_ns_of(msg.header)
            self._lag_ns = clock.now().nanoseconds - stamp_ns if stamp_ns else 0
            refusal = read(msg, now_ns)
            if refusal is None:
                self.pace.heard(stamp_ns, now_ns)
            return refusal

        wires.listen(JointState, robot.joint_states, "joint states", take, timeout_s=timeout_s, qos=SAMPLED_EACH)
        if gripper is not None and robot.gripper is not None:
            self.arm.set_gripper_ends(robot.gripper.closed, robot.gripper.open)
            topic = robot.gripper.joint_states or robot.joint_states
            takes = _reads(gripper, speeds=False)  # some send zeros for a gripper that moves
            wires.listen(JointState, topic, "joint states of the gripper", takes, timeout_s=1.0)

    def _listen_to_pose(self) -> None:
        pose = self._robot.pose
        self._tf: TfPose | None = None
        if isinstance(pose, PoseFromTopic):

            def take(msg: PoseStamped, now_ns: int) -> Fault | None:
                return self.arm.take_pose(pose_from_msg(msg), msg.header.frame_id, ros_ns_of(msg.header), now_ns)

            self._wires.listen(PoseStamped, pose.topic, POSE, take, timeout_s=pose.timeout_s)
        elif isinstance(pose, PoseFromTf):
            self._tf = TfPose(self._wires, self.arm, self._robot, pose.timeout_s)

    def _listen_to_wrench(self) -> None:
        wrench = self._robot.wrench
        if wrench is None:
            return
        topic = self._wires.node.resolve_topic_name(wrench.topic)

        def take(msg: WrenchStamped, now_ns: int) -> Fault | None:
            return self.arm.take_wrench(wrench_from_msg(msg), msg.header.frame_id, topic, ros_ns_of(msg.header))

        self._wires.listen(WrenchStamped, wrench.topic, "wrenches", take, timeout_s=wrench.timeout_s)

    def _listen_to_description(self, kinematics: UrdfTopic) -> None:
        topic = self._wires.node.resolve_topic_name(kinematics.topic)

        def take(msg: String, now_ns: int) -> Fault | None:
            try:
                self.arm.chain = described_chain(self._robot, kinematics, msg.data, source=topic)
            except ConfigError as error:
                return Fault(kind=FaultKind.CONTRADICTION, text=str(error))
            return None

        self._wires.listen(String, kinematics.topic, "robot descriptions", take, timeout_s=None, qos=LATCHED)


class TfPose:
    """A reader of the TCP's pose in TF."""

    def __init__(self, wires: Wires, arm: ArmSense, robot: DriverRobot, timeout_s: float) -> None:
        try:
            import tf2_ros
        except ImportError:
            raise ConfigError(
                "tf2_ros is missing, must be importable for a pose from TF; install tf2_ros_py of your ROS "
                "distribution, or take another pose source"
            ) from None
        self._buffer: Any = tf2_ros.Buffer()
        self._listener: Any = tf2_ros.TransformListener(self._buffer, wires.node)
        self._failures: tuple[type[Exception], ...] = (tf2_ros.TransformException,)
        self._health = wires.health
        self._arm = arm
        self._frames = (robot.base_frame, robot.tcp_frame)
        self._stamp_ns = 0
        self._health.expect(Input(name=POSE, topic="/tf", timeout_s=timeout_s))

    def look_up(self, now_ns: int) -> None:
        """Take in the newest transform if it is newer than the one before."""
        base, tcp = self._frames
        try:
            found = self._buffer.lookup_transform(base, tcp, Time())
        except self._failures as error:
            text = f"/tf has no transform from {base} to {tcp} ({error}); start what publishes it"
            self._health.refused(POSE, Fault(kind=FaultKind.INPUT_MISSING, text=text), now_ns)
            return
        stamp_ns = ros_ns_of(found.header)
        if stamp_ns == self._stamp_ns:
            return
        self._stamp_ns = stamp_ns
        point, turn = found.transform.translation, found.transform.rotation
        try:
            pose = Pose(
                position_m=np.array([point.x, point.y, point.z]),
                quaternion_xyzw=np.array([turn.x, turn.y, turn.z, turn.w]),
            )
        except SpecError as error:  # tf2 lets a turn pass that is 0.5 % too long or too short
            text = f"transform from {base} to {tcp} on /tf cannot be used: {error}; correct what publishes it"
            self._health.refused(POSE, Fault(kind=FaultKind.INPUT_INVALID, text=text), now_ns)
            return
        refusal = self._arm.take_pose(pose, base, stamp_ns, now_ns)
        if refusal is not None:
            self._health.refused(POSE, refusal, now_ns)
        else:
            self._health.heard(POSE, now_ns)


def _reads(reader: JointReader, *, speeds: bool = True) -> Callable[[JointState, int], Fault | None]:
    def take(msg: JointState, now_ns: int) -> Fault | None:
        positions, velocities = joint_values(msg)
        velocities = velocities if speeds else np.empty(0)
        return reader.take(msg.name, positions, velocities, ros_ns_of(msg.header), now_ns)

    return take
