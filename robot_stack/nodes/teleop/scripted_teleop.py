"""The scripted operator at the teleop device: sees sim/seen, reads the banner, follows the episode."""

from __future__ import annotations

import time
from contextlib import suppress

from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import mode_from_text, stamp_ns_of, vector_from_msg
from robot_stack.nodes.episode_status import EpisodeStatus
from robot_stack.nodes.qos import EVERY, LATCHED, SAMPLED
from robot_stack.nodes.seeing import seen_from_vector
from robot_stack.nodes.teleop.scripted_operator import OperatorRoutine
from robot_stack.types.errors import SpecError
from robot_stack.workcell.build import build_operator


def connect_operator(node: StackNode, run: ResolvedRun) -> OperatorRoutine:
    """Build the scripted operator and subscribe its eyes and ears to the topics."""
    operator = OperatorRoutine(build_operator(run, run.run.seed))

    def on_seen(msg: JointState) -> None:
        operator.see(seen_from_vector(vector_from_msg(msg), stamp_ns_of(msg.header)))

    def on_mode(msg: String) -> None:
        with suppress(SpecError):
            mode, reason = mode_from_text(msg.data)
            operator.read_banner(mode, time.monotonic_ns(), None if reason is None else reason.kind)

    def on_status(msg: String) -> None:
        with suppress(SpecError):
            operator.follow(EpisodeStatus.from_text(msg.data))

    def on_claim(_: String) -> None:
        operator.hear_claim(time.monotonic_ns())

    node.create_subscription(JointState, topics.SEEN, on_seen, SAMPLED)
    node.create_subscription(String, topics.MODE, on_mode, LATCHED)
    node.create_subscription(String, topics.STATUS, on_status, LATCHED)
    node.create_subscription(String, topics.CLAIM, on_claim, EVERY)
    return operator
