"""The inputs of a teleop device: topics of foreign nodes, the robot's state, or what the scripted operator sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Float32

from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.teleop import JoyTeleop, LeaderTeleop, RealTeleop, ScriptedTeleop, TeleopConfig
from robot_stack.control.action_space import ActionSpace
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import pose_from_msg, ros_ns_of, state_from_msg
from robot_stack.nodes.drivers.feetech import LeaderPort
from robot_stack.nodes.drivers.wires import type_called
from robot_stack.nodes.qos import SAMPLED, SAMPLED_EACH
from robot_stack.nodes.ros_time import OFFSET
from robot_stack.nodes.sole_sender import SoleSender
from robot_stack.nodes.state_admission import StateAdmission
from robot_stack.nodes.teleop.problems import CarriedTypes
from robot_stack.teleop.bindings import table
from robot_stack.teleop.build import BuiltTeleop, build_page, build_teleop
from robot_stack.teleop.messages import JointPacket, JoyPacket, quest_inputs
from robot_stack.teleop.page import TOPIC as PAGE
from robot_stack.teleop.readers import MessageReader
from robot_stack.teleop.robot_view import RobotView
from robot_stack.teleop.selection import ArmSelector
from robot_stack.teleop.sender_stamps import SenderStamps
from robot_stack.teleop.sources import Machine
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import TeleopSample
from robot_stack.workcell.build_safety import teleop_scale

JOY = "sensor_msgs/Joy"
PacketT = TypeVar("PacketT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleopSource:
    """A teleop device that is connected to its inputs.

    Attributes:
        sample: At a time in ns, what the operator does with each arm.
        problem: Why there is nothing to believe, else "".
        real: Whether it may change at any time, so that it is worth reading often.
    """

    sample: Callable[[int], Mapping[str, TeleopSample]]
    problem: Callable[[], str]
    real: bool


def connect(
    node: StackNode, run: ResolvedRun, config: TeleopConfig, arms: Sequence[str], wake: Callable[[], None]
) -> TeleopSource:
    """Build the teleop device of a run and subscribe it to what it needs.

    Args:
        node: Subscribes.
        run: The resolved run.
        config: Of the device.
        arms: That it is for.
        wake: Called after something has arrived that may change what the device says.

    Raises:
        RobotError: If a library is missing that the device needs.
        ConfigError: If its file names a key or an axis that there is not.
    """
    if not isinstance(config, RealTeleop):
        from robot_stack.nodes.teleop.scripted_operator import (
            PageFirst,  # both load the simulator, which no real cell needs
            connect_operator,
        )

        operator = connect_operator(node, run)
        if not isinstance(config, ScriptedTeleop) or config.page is None:
            return TeleopSource(sample=operator.sample, problem=lambda: "", real=False)
        selector, page = ArmSelector(arms), build_page(config.page)
        _subscribe(node, config, selector, arms, page, wake)
        return TeleopSource(sample=PageFirst(page.device, selector, operator).sample, problem=lambda: "", real=False)
    selector = ArmSelector(arms)
    scale = teleop_scale(run.arms[arms[0]], ActionSpace(run.spec()))
    built = build_teleop(config, scale, Machine(servos=LeaderPort))
    if built.keys:
        node.get_logger().info(f"keys of {config.device}:\n{table(built.keys)}")
    carried = CarriedTypes(node, _subscribe(node, config, selector, arms, built, wake))
    return TeleopSource(
        sample=lambda now_ns: selector.route(built.device.sample(now_ns)),
        problem=lambda: carried.explain(built.device.problem, time.monotonic_ns()),
        real=True,
    )


def _subscribe(
    node: StackNode,
    config: TeleopConfig,
    selector: ArmSelector,
    arms: Sequence[str],
    built: BuiltTeleop,
    wake: Callable[[], None],
) -> dict[str, type]:
    """Subscribe a device to its topics and return the type of each."""
    kinds: dict[str, type] = {}
    inputs = config.joy if isinstance(config, LeaderTeleop) else None
    own = isinstance(config, JoyTeleop | LeaderTeleop) and config.stamps == "own"
    for topic, reader in built.joy.items():
        if inputs is not None and inputs.topic == topic and inputs.type != JOY:
            kinds[topic] = type_called(inputs.type)
            feed = _feeds(node, topic, reader, quest_inputs, wake, own=own)
        else:
            kinds[topic] = Joy
            feed = _feeds(node, topic, reader, _joy_packet, wake, own=own)
            feed = _of_this_run(node, topic, feed) if topic == PAGE else feed
        node.create_subscription(kinds[topic], topic, feed, SAMPLED_EACH)
    if built.leader is not None and isinstance(config, LeaderTeleop):
        by_pose = config.follow == "pose"
        kinds[config.topic] = PoseStamped if by_pose else JointState
        packet_of: Callable[[Any], Pose | JointPacket] = pose_from_msg if by_pose else _joint_packet
        feed = _feeds(node, config.topic, built.leader, packet_of, wake, own=own)
        node.create_subscription(kinds[config.topic], config.topic, feed, SAMPLED_EACH)
        if built.grip is not None and config.gripper_topic is not None:
            topic = config.gripper_topic.topic
            take = _feeds(node, topic, built.grip, lambda msg: float(msg.data), wake)
            kinds[topic] = Float32
            node.create_subscription(Float32, topic, take, SAMPLED_EACH)
    if built.alive is not None and isinstance(config, JoyTeleop) and config.alive is not None:
        topic = config.alive.topic
        take = _feeds(node, topic, built.alive, pose_from_msg, wake, own=own)
        kinds[topic] = PoseStamped
        node.create_subscription(PoseStamped, topic, take, SAMPLED_EACH)
    if built.robot is not None:
        for arm in arms:
            show = show_robot(node, arm, selector, built.robot)
            node.create_subscription(JointState, topics.state(arm), show, SAMPLED)
    return kinds


def _of_this_run(node: StackNode, topic: str, feed: Callable[[Joy], None]) -> Callable[[Joy], None]:
    """Wrap a callback to pass on only what a process of the run has sealed.

    The hand at the console's page drives an arm.
    """

    def on_joy(msg: Joy) -> None:
        if node.sealer.sender(topic, msg) is not None:
            feed(msg)

    return on_joy


def _feeds(
    node: StackNode,
    topic: str,
    reader: MessageReader[PacketT],
    packet_of: Callable[[Any], PacketT],
    wake: Callable[[], None],
    *,
    own: bool = False,
) -> Callable[[Any], None]:
    """Return a callback that hands a message on to its reader.

    One that is no packet, not of now, or of two senders is refused.
    """
    stamps, sender = SenderStamps(own=own), SoleSender(node, topic)

    def on_message(msg: Any) -> None:
        now_ns = time.monotonic_ns()
        stamp_ns = ros_ns_of(msg.header) if hasattr(msg, "header") else 0
        refusal = sender.refusal(now_ns) or stamps.refusal(stamp_ns, now_ns, now_ns + OFFSET.now_ns())
        try:
            packet = packet_of(msg)
        except SpecError as error:
            reader.refuse(str(error) if refusal is None else refusal.text)
        else:
            if refusal is not None:
                reader.refuse(refusal.text, packet)
            else:
                reader.feed(packet, now_ns)
        wake()

    return on_message


def _joy_packet(msg: Joy) -> JoyPacket:
    return JoyPacket(axes=msg.axes, buttons=msg.buttons)


def _joint_packet(msg: JointState) -> JointPacket:
    return JointPacket(names=msg.name, positions=msg.position)


def show_robot(node: StackNode, arm: str, selector: ArmSelector, robot: RobotView) -> Callable[[JointState], None]:
    """Return a callback that shows the device the state of an arm, while it is the arm that is driven."""
    admitted = StateAdmission(node.sealer, arm)

    def on_state(msg: JointState) -> None:
        if selector.chosen != arm or admitted.refusal(msg) is not None:
            return
        try:
            state = state_from_msg(msg, arm)
        except SpecError:
            return  # too old soon, which the device says
        robot.see(state.T_base_tcp, state.stamp_ns)

    return on_state
