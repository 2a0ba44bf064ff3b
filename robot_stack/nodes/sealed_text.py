"""Texts that processes of the run tell each other, sealed: who is in control and why, and the course of the episode.

What tools read on the topic of the same name outside `_wire/` anybody may publish, as a browser behind a bridge or a
bag that is played does. A process of the run that acts on it, shows it to an operator or keeps a verdict by it listens
here; commands that look at a cell from outside (doctor, the 3-D view) are tools.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import QoSProfile
from std_msgs.msg import String

from robot_stack.control.safety.admission import OLDEST_VERDICT_S, LatchedAdmission, OnceAdmission
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import header_of, stamp_ns_of
from robot_stack.nodes.qos import LATCHED
from robot_stack.types.errors import SpecError

REPEAT_HZ = 1.0
"""A latched text is said again so often: a step of the clock may have made it seem older than the one before."""


class SealedText:
    """A publisher of one topic of texts: sealed for the processes of the run, and plain for tools.

    Args:
        node: It publishes, and has the run's key.
        topic: Of the plain texts, relative to the cell.
        profile: Of both.
    """

    def __init__(self, node: StackNode, topic: str, profile: QoSProfile) -> None:
        self._sealer = node.sealer
        self._topic = topics.sealed(topic)
        self._plain = node.create_publisher(String, topic, profile)
        self._wire = node.create_publisher(DiagnosticArray, self._topic, profile)
        self._text = ""
        self._number = self._said_ns = 0
        self._saying = threading.Lock()
        if profile is LATCHED:
            node.steady_timer(REPEAT_HZ, self._repeat)

    def say(self, text: str) -> None:
        """Publish a text on both topics; from any thread."""
        with self._saying:
            self._text, self._number = text, self._number + 1
            self._publish()
            self._plain.publish(String(data=text))

    def _repeat(self) -> None:
        with self._saying:
            if self._number:
                self._publish()

    def _publish(self) -> None:
        """Seal the newest text; its number tells a repetition from the same text said anew."""
        self._said_ns = max(time.monotonic_ns(), self._said_ns + 1)
        status = DiagnosticStatus(name=str(self._number), message=self._text)
        msg = DiagnosticArray(header=header_of(self._said_ns), status=[status])
        self._wire.publish(self._sealer.seal(self._topic, msg))


def listen_to_text(
    node: StackNode,
    topic: str,
    take: Callable[[str], None],
    profile: QoSProfile = LATCHED,
    refused: Callable[[str], None] = lambda text: None,
    *,
    repeats: bool = False,
) -> None:
    """Subscribe a process of the run to what another says on one topic of texts.

    Args:
        node: It listens, and has the run's key.
        topic: Of the plain texts, relative to the cell.
        take: Gets each new text; SpecError if it cannot be used.
        profile: That of the publisher. The last text of a latched topic may be of any age, but none that was made
            before one that was heard counts; others count once, while they are young.
        refused: Gets why a message does not count.
        repeats: Whether `take` gets the repetitions of a latched text too, which are the sender's signs of life.
    """
    wire = topics.sealed(topic)
    newest, once = LatchedAdmission(), OnceAdmission("text", wire, OLDEST_VERDICT_S)
    heard = ("", "")

    def on_text(msg: DiagnosticArray) -> None:
        nonlocal heard
        sender, stamp_ns, now_ns = node.sealer.sender(wire, msg), stamp_ns_of(msg.header), time.monotonic_ns()
        if sender is None or profile is not LATCHED:
            refusal = once.refusal(sender, stamp_ns, now_ns)
            if refusal is not None:
                refused(refusal.text)
                return
        elif not newest.takes(stamp_ns, now_ns) or (not repeats and heard == (sender, msg.status[0].name)):
            return
        heard = sender or "", msg.status[0].name
        try:
            take(msg.status[0].message)
        except SpecError as error:
            refused(str(error))

    node.create_subscription(DiagnosticArray, wire, on_text, profile)
