"""The state of control as processes of the run hear it: sealed by the safety process, and none older than the newest.

What tools read on safety/mode anybody may publish, as a browser behind a bridge or a bag that is played does; whoever
acts on who is in control, or tells an operator, listens here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray

from robot_stack.control.safety.admission import LatchedAdmission
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import mode_from_msg, stamp_ns_of
from robot_stack.nodes.qos import LATCHED
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.reason import Refusal


def listen_to_control(
    node: StackNode, take: Callable[[Mode, Refusal | None], None], refused: Callable[[str], None] = lambda text: None
) -> None:
    """Subscribe a process of the run to the state of control.

    Args:
        node: It listens, and has the run's key.
        take: Gets each new state and its reason.
        refused: Gets why a message does not count.
    """
    admission = LatchedAdmission()

    def on_control(msg: DiagnosticArray) -> None:
        if node.sealer.sender(topics.CONTROL, msg) is None:
            refused(f"{topics.CONTROL} has a sender that is no process of this run")
            return
        if not admission.takes(stamp_ns_of(msg.header), time.monotonic_ns()):
            return
        try:
            mode, reason = mode_from_msg(msg)
        except SpecError as error:
            refused(str(error))
            return
        take(mode, reason)

    node.create_subscription(DiagnosticArray, topics.CONTROL, on_control, LATCHED)
