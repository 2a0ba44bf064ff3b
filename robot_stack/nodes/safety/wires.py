"""Commands on both sides of the safety filter: the policy's, joined by stamp, and those that an arm obeys."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy

from robot_stack.config.resolved import RunArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import (
    decision_to_msg,
    frame_and_session,
    frame_of_mode,
    stamp_ns_of,
    twist_from_msg,
    twist_to_msg,
    vector_from_msg,
    vector_to_msg,
)
from robot_stack.nodes.qos import EVERY, NEWEST
from robot_stack.nodes.topics import ArmNames
from robot_stack.types.command import Command, Decision, Mode, Source

Part = TypeVar("Part")


class StampJoin(Generic[Part]):
    """Joins parts by their stamp: gives all of one stamp once they are there, and drops older incomplete ones.

    Attributes:
        missing: Of the stamp that was dropped by the newest part, what had not come; empty if none was.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._newest: dict[str, tuple[int, Part]] = {}
        self._whole_ns: int | None = None
        self.missing: list[str] = []

    def add(self, name: str, stamp_ns: int, part: Part) -> dict[str, Part] | None:
        """Take in a part; return all parts of its stamp in the order of the names if they are complete, else None."""
        before_ns = self._at(name)
        dropped = before_ns is not None and before_ns not in (stamp_ns, self._whole_ns)
        self.missing = [each for each in self._names if self._at(each) != before_ns] if dropped else []
        self._newest[name] = (stamp_ns, part)
        complete = {each: self._newest[each][1] for each in self._names if self._at(each) == stamp_ns}
        if len(complete) < len(self._names):
            return None
        self._whole_ns = stamp_ns
        return complete

    def _at(self, name: str) -> int | None:
        return self._newest[name][0] if name in self._newest else None


class PolicyCommands:
    """Joins a policy's messages and offers them to the filter, once all of one stamp are there.

    One for the run's own actor and one for a policy of somebody else: the filter refuses the second of two that live.

    Attributes:
        grippers: Arms whose gripper is the policy's.
    """

    def __init__(self, arms: Iterable[RunArm], safety: SafetyFilter) -> None:
        self._arms = tuple(arms)
        self._safety = safety
        self.grippers = [arm.name for arm in self._arms if arm.action.gripper != "none"]
        parts = [*(topics.policy(arm.name) for arm in self._arms), *map(topics.policy_gripper, self.grippers)]
        self._joined: StampJoin[Any] = StampJoin(parts)

    def take(self, arm: str, msg: TwistStamped) -> None:
        """Take in the policy's twist for an arm."""
        self._offer(self._joined.add(topics.policy(arm), stamp_ns_of(msg.header), msg))

    def take_gripper(self, arm: str, msg: JointState) -> None:
        """Take in the policy's wanted opening for an arm's gripper."""
        opening = vector_from_msg(msg)
        value = float(opening[0]) if opening.shape == (1,) else np.nan
        self._offer(self._joined.add(topics.policy_gripper(arm), stamp_ns_of(msg.header), value))

    def _offer(self, parts: Mapping[str, Any] | None) -> None:
        if parts is not None:
            commands = [_command(arm, parts) for arm in self._arms]
            self._safety.offer(commands, time.monotonic_ns())
        elif self._joined.missing:
            missing = [each.removeprefix(f"{topics.WIRE}/") for each in self._joined.missing]
            self._safety.offer_incomplete(missing, time.monotonic_ns())


def _command(arm: RunArm, parts: Mapping[str, Any]) -> Command:
    """Build an arm's command out of the joined parts.

    A negative opening asks for nothing; NaN and anything above 1 is refused by the filter.
    """
    msg, gripper = parts[topics.policy(arm.name)], parts.get(topics.policy_gripper(arm.name))
    names = ArmNames.of(arm.name, arm.robot)
    frames = {names.tcp: "tcp", names.base: "base", arm.robot.tcp_frame: "tcp", arm.robot.base_frame: "base"}
    frame, session = frame_and_session(msg.header.frame_id)
    return Command(
        arm=arm.name,
        twist=twist_from_msg(msg),
        frame=frames.get(frame, frame),
        gripper=None if gripper is None or gripper < 0.0 else gripper,
        stamp_ns=stamp_ns_of(msg.header),
        source=Source.POLICY,
        session=session,
    )


class ArmOutput:
    """Publishes the decisions about one arm, sealed: the arm obeys them, and steps are recorded from them."""

    def __init__(self, node: StackNode, arm: RunArm) -> None:
        self._sealer = node.sealer
        self._frame = arm.robot.tcp_frame
        self._topics = topics.command(arm.name), topics.command_gripper(arm.name), topics.label(arm.name)
        self._commands = node.create_lifecycle_publisher(TwistStamped, topics.command(arm.name), NEWEST)
        self._grippers = node.create_lifecycle_publisher(JointState, topics.command_gripper(arm.name), NEWEST)
        self._labels = node.create_publisher(Joy, topics.label(arm.name), EVERY)

    def publish(self, decision: Decision) -> None:
        """Publish the command, and the decision behind it."""
        command = decision.command
        self._command(command.twist, command.stamp_ns, decision.mode)
        if command.gripper is not None:
            opening = vector_to_msg(np.array([command.gripper]), command.stamp_ns)
            self._grippers.publish(self._sealer.seal(self._topics[1], opening))
        self._labels.publish(self._sealer.seal(self._topics[2], decision_to_msg(decision)))

    def stand_still(self, mode: Mode) -> None:
        """Publish a last command: zero."""
        self._command(np.zeros(6), time.monotonic_ns(), mode)

    def _command(self, twist: np.ndarray, stamp_ns: int, mode: Mode) -> None:
        msg = twist_to_msg(twist, stamp_ns, frame_of_mode(self._frame, mode))
        self._commands.publish(self._sealer.seal(self._topics[0], msg))
