"""A listener for `robot-stack calibrate` that keeps whole images and the arm's positions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import image_from_msg, mode_from_text, state_from_msg
from robot_stack.nodes.diagnostics import Due
from robot_stack.nodes.qos import LATCHED, SAMPLED
from robot_stack.nodes.tools.listening import Listening
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.robot import RobotState

KEPT_HZ = 5.0
KEPT = 600
"""Images of one camera: two minutes."""


class Onlooker(Node):
    """A ROS node that keeps what is seen of one cell and one of its arms, in the order of arrival.

    What cannot be read is passed over.
    """

    def __init__(self, run: ResolvedRun, namespace: str, arm: str) -> None:
        super().__init__("onlooker", namespace=namespace, start_parameter_services=False)
        self._arm = arm
        self.images: dict[str, list[np.ndarray]] = {name: [] for name in run.cameras}
        self.state: RobotState | None = None
        self.positions_m: list[np.ndarray] = []
        self.mode: Mode | None = None
        self.starting = self.create_client(Trigger, topics.safety_service("start_demo"))
        self.ending = self.create_client(Trigger, topics.safety_service("end_episode"))
        for name in run.cameras:
            self.create_subscription(Image, topics.observation(name), self._on_image(name), SAMPLED)
        self.create_subscription(JointState, topics.state(self._arm), self._on_state, SAMPLED)
        self.create_subscription(String, topics.MODE, self._on_mode, LATCHED)

    def forget(self) -> None:
        """Drop the images and positions that came while the cell was starting."""
        self.positions_m.clear()
        for images in self.images.values():
            images.clear()

    def _on_image(self, name: str) -> Callable[[Image], None]:
        due = Due(KEPT_HZ)

        def receive(msg: Image) -> None:
            kept = self.images[name]
            if due.now(time.monotonic_ns()) and len(kept) < KEPT:
                with suppress(SpecError):  # a stray message costs no views
                    kept.append(image_from_msg(msg))

        return receive

    def _on_state(self, msg: JointState) -> None:
        with suppress(SpecError):
            self.state = state_from_msg(msg, self._arm)
            self.positions_m.append(self.state.T_base_tcp.position_m)

    def _on_mode(self, msg: String) -> None:
        with suppress(SpecError):
            self.mode = mode_from_text(msg.data)[0]


def hand_over(here: Listening[Onlooker]) -> None:
    """Let the device move the arm as in a demonstration, as soon as an operator has armed the cell."""
    if here.node.mode is Mode.READY:
        here.ask(here.node.starting, Trigger.Request())


def take_back(here: Listening[Onlooker]) -> None:
    """End the demonstration, so that the arm holds."""
    here.ask(here.node.ending, Trigger.Request())
