"""Admission of an arm's states to whoever is led by them: sealed by a process of this run, each once, while young.

A seal alone does not tell a state from one that was recorded an hour ago and is played again: whoever plays it would
choose where a clutch believes the tool to be, and so where the arm goes.
"""

from __future__ import annotations

import time

from sensor_msgs.msg import JointState

from robot_stack.control.safety.admission import OnceAdmission
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import stamp_ns_of
from robot_stack.nodes.sealing import Sealer
from robot_stack.types.reason import Refusal

OLDEST_S = 1.0
"""Whoever acts on a state has a limit of their own for its age; this one keeps recordings out."""


class StateAdmission:
    """The judge of one arm's states.

    Args:
        sealer: Tells who sealed them.
        arm: Its name.
        oldest_s: Age at which one no longer counts.
    """

    def __init__(self, sealer: Sealer, arm: str, oldest_s: float = OLDEST_S) -> None:
        self._sealer = sealer
        self._topic = topics.state(arm)
        self._once = OnceAdmission("state", self._topic, oldest_s)

    def refusal(self, msg: JointState) -> Refusal | None:
        """Return why a state that has just arrived does not count, or None where it does."""
        session = self._sealer.sender(self._topic, msg)
        return self._once.refusal(session, stamp_ns_of(msg.header), time.monotonic_ns())
