"""The bring-up of a cell's nodes in their order, which says which one is not active, and why.

Decisions live in robot_stack.workcell.bring_up. Sentences go to stderr, for the operator who started the cell, and the
newest word on all of it is latched on cell/status.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from functools import partial

from lifecycle_msgs.srv import ChangeState
from rclpy.client import Client
from rclpy.task import Future
from std_msgs.msg import String

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.diagnostics import Diagnosis
from robot_stack.nodes.qos import LATCHED
from robot_stack.nodes.sealed_text import SealedText
from robot_stack.types.errors import SpecError
from robot_stack.types.finding import Level
from robot_stack.workcell.bring_up import Ask, BringUp, Heard

RATE_HZ = 20.0


class BringUpNode(StackNode):
    """A ROS node that hears the stage of each node of the cell and asks it for its next step."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("bring_up", settings.namespace, key=settings.key)
        self.show_settings(settings.run, {name: f"cell.{name}" for name in ("dds_domain", "dds_reach", "dds_peers")})
        names, required = settings.options.node, settings.options.required
        self._plan = BringUp(names, required)
        self._steps: dict[str, Client] = {
            name: self.create_client(ChangeState, f"{name}/change_state") for name in names
        }
        for name in names:
            self.create_subscription(String, topics.lifecycle(name), partial(self._on_stage, name), LATCHED)
        self._cell_status = SealedText(self, topics.CELL_STATUS, LATCHED)
        self._said = ""
        self.steady_timer(RATE_HZ, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Return a diagnosis of whether all nodes are active."""
        status = self._plan.status()
        return [Diagnosis(task="cell", level=Level.OK if status == "active" else Level.FAIL, message=status)]

    def _on_stage(self, name: str, msg: String) -> None:
        try:
            self._plan.heard(name, Heard.from_text(msg.data))
        except SpecError as error:
            self.get_logger().error(f"{name}: {error}")

    def _on_tick(self) -> None:
        ask = self._plan.next(time.monotonic())
        if ask is not None:
            self._ask(ask)
        for sentence in self._plan.words():
            with suppress(OSError):  # of a terminal that has closed: the cell is brought up all the same
                print(f"bring-up: {sentence}", file=sys.stderr, flush=True)
        status = self._plan.status()
        if status != self._said:
            self._said = status
            self._cell_status.say(status)

    def _ask(self, ask: Ask) -> None:
        request = ChangeState.Request()
        request.transition.label = ask.transition
        client = self._steps[ask.node]
        if not client.service_is_ready():
            self._plan.answered(ask, success=False, now_s=time.monotonic())
            return

        def answered(future: Future) -> None:
            answer = future.result()
            success = answer is not None and answer.success
            self._plan.answered(ask, success=success, now_s=time.monotonic())

        client.call_async(request).add_done_callback(answered)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", action="append", required=True, help="name of a managed node; repeated, in order")
    parser.add_argument("--required", action="append", default=[], help="one that holds up all that follow; repeated")


def main() -> int:
    """Run the bring-up process and return its exit code."""
    return run_node("bring_up", BringUpNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
