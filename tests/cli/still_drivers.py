"""The drivers of a cell whose arms stand still at home: states, words and pictures as each robot and camera file
expects them, and somebody who listens to every command."""

from __future__ import annotations

import sys
import time
from array import array
from functools import partial
from itertools import cycle

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.publisher import Publisher
from sensor_msgs.msg import Image, JointState, Joy
from std_msgs.msg import Bool, Float64, Float64MultiArray, Header, Int8, String, UInt8
from trajectory_msgs.msg import JointTrajectory

from robot_stack.config.driver_parts import PoseFromTopic
from robot_stack.config.drivers import (
    DriverRobot,
    FrankaRobot,
    PoseCommandedRobot,
    ServoRobot,
    UrRobot,
)
from robot_stack.config.kinematics import UrdfTopic
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import time_of
from robot_stack.nodes.drivers.messages import pose_to_msg
from robot_stack.nodes.qos import LATCHED, NEWEST, STATE
from robot_stack.workcell.build_arm import build_chain

AXES, BUTTONS = 6, 15


class StillDrivers(StackNode):
    """Of every arm and every camera of the run."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("drivers", settings.namespace)
        self._rng = np.random.default_rng(0)
        self._kept: list[Publisher] = []
        for robot in settings.run.robots.values():
            assert isinstance(robot, DriverRobot)
            self._arm(robot)
            self._words(robot)
            self._listeners(robot)
        for name, camera in settings.run.cameras.items():
            self._camera(name, camera.source_topic, camera.height_px, camera.width_px, camera.rate_hz)
        joy = self.create_publisher(Joy, settings.run.teleop.topic, NEWEST)
        self.steady_timer(50.0, lambda: joy.publish(Joy(axes=[0.0] * AXES, buttons=[0] * BUTTONS)))
        print("up", flush=True)

    def _arm(self, robot: DriverRobot) -> None:
        names, angles = [joint.name for joint in robot.joints], list(robot.home_rad)
        topics = {robot.joint_states: (names, angles)}
        if robot.gripper is not None:
            own = robot.gripper.joint_states or robot.joint_states
            had = topics.get(own, ([], []))
            topics[own] = ([*had[0], robot.gripper.joint], [*had[1], robot.gripper.open])
        states = {topic: self.create_publisher(JointState, topic, STATE) for topic in topics}
        wrench = None if robot.wrench is None else self.create_publisher(WrenchStamped, robot.wrench.topic, STATE)
        pose = None
        if isinstance(robot.pose, PoseFromTopic):
            pose = self.create_publisher(PoseStamped, robot.pose.topic, STATE)
        chain = build_chain(robot)

        def publish() -> None:
            header = Header(stamp=self.get_clock().now().to_msg(), frame_id=robot.base_frame)
            for topic, (joints, positions) in topics.items():
                still = [0.0] * len(joints)
                states[topic].publish(JointState(header=header, name=joints, position=positions, velocity=still))
            if pose is not None:
                pose.publish(pose_to_msg(chain.pose(np.array(robot.home_rad)), header))
            if wrench is not None:
                wrench.publish(WrenchStamped(header=Header(stamp=header.stamp, frame_id=robot.wrench.frame)))

        self.steady_timer(robot.rate_hz, publish)

    def _words(self, robot: DriverRobot) -> None:
        """What a driver says of itself."""
        if isinstance(robot, ServoRobot):
            self._repeat(Int8, robot.status, Int8(data=0))
            self.create_service(GetParameters, f"{robot.node}/get_parameters", partial(self._on_parameters, robot))
        if isinstance(robot, FrankaRobot):
            self._repeat(UInt8, robot.robot_state, UInt8(data=2))
        if isinstance(robot, UrRobot):
            self._say(Bool, robot.program_running, Bool(data=True))
            self._say(UInt8, robot.safety_mode, UInt8(data=1))
            self._repeat(Float64, robot.speed_scaling, Float64(data=100.0))
        if isinstance(robot.kinematics, UrdfTopic):
            self._say(String, robot.kinematics.topic, String(data=urdf_of(robot, robot.kinematics)))

    def _on_parameters(
        self, robot: ServoRobot, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        """Servo started as its file says."""
        text, number, flag = (
            ParameterType.PARAMETER_STRING,
            ParameterType.PARAMETER_DOUBLE,
            ParameterType.PARAMETER_BOOL,
        )
        said = {
            "command_in_type": ParameterValue(type=text, string_value=robot.command_in),
            "scale.linear": ParameterValue(type=number, double_value=robot.linear_scale_m_s),
            "scale.rotational": ParameterValue(type=number, double_value=robot.rotational_scale_rad_s),
            "apply_twist_commands_about_ee_frame": ParameterValue(type=flag, bool_value=True),
        }
        response.values = [said[name.removeprefix("moveit_servo.")] for name in request.names]
        return response

    def _repeat(self, kind: type, topic: str, message: object) -> None:
        publisher = self.create_publisher(kind, topic, STATE)
        self.steady_timer(20.0, lambda: publisher.publish(message))

    def _say(self, kind: type, topic: str, message: object) -> None:
        publisher = self.create_publisher(kind, topic, LATCHED)
        publisher.publish(message)
        self._kept.append(publisher)

    def _listeners(self, robot: DriverRobot) -> None:
        arm = TwistStamped if isinstance(robot, ServoRobot) else JointTrajectory
        if isinstance(robot, PoseCommandedRobot):
            arm = PoseStamped
        hand = Float64MultiArray
        if robot.gripper is not None and robot.gripper.interface == "trajectory":
            hand = JointTrajectory
        for key, topic in robot.command_topics.items():
            self.create_subscription(hand if key.startswith("gripper") else arm, topic, lambda _: None, STATE)

    def _camera(self, name: str, topic: str, height: int, width: int, rate_hz: float) -> None:
        publisher = self.create_publisher(Image, topic, NEWEST)
        noise = cycle([array("B", self._rng.bytes(3 * height * width)) for _ in range(4)])

        def publish() -> None:
            message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
            message.header = Header(stamp=time_of(time.time_ns()), frame_id=name)
            message.data = next(noise)
            publisher.publish(message)

        self.steady_timer(rate_hz, publish)


def urdf_of(robot: DriverRobot, kinematics: UrdfTopic) -> str:
    """An arm with those joints, one tenth of a metre apart and by turns about z and y; the tool points down."""
    links, joints = [kinematics.base_link], []
    for number, joint in enumerate(robot.joints):
        links.append(kinematics.tcp_link if number == len(robot.joints) - 1 else f"link_{number}")
        axis = "0 1 0" if number % 2 else "0 0 1"
        turned = "3.1415926 0 0" if number == 0 else "0 0 0"
        joints.append(
            f'<joint name="{joint.name}" type="revolute"><parent link="{links[-2]}"/><child link="{links[-1]}"/>'
            f'<origin xyz="0.1 0 0" rpy="{turned}"/><axis xyz="{axis}"/><limit lower="{joint.min_rad}" '
            f'upper="{joint.max_rad}" effort="1" velocity="{joint.max_speed_rad_s}"/></joint>'
        )
    nodes = "".join(f'<link name="{link}"/>' for link in links)
    return f'<robot name="arm">{nodes}{"".join(joints)}</robot>'


if __name__ == "__main__":
    sys.exit(run_node("drivers", StillDrivers))
