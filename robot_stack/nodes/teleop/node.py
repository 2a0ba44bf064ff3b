"""ROS 2 face of one teleop device; what it means is decided in robot_stack.teleop, or by the scripted operator.

A device is for one arm, or for all of the cell: then it drives one at a time, and the scripted operator has two hands.

What the device says goes out at a steady rate. It is read more often than that: a change of the deadman, of the grip,
or the loss of the device goes out at once, and so do keys.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace

import numpy as np
from sensor_msgs.msg import Joy

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import events_to_msg, teleop_to_msg
from robot_stack.nodes.diagnostics import Diagnosis, RateMeter
from robot_stack.nodes.qos import EVERY, NEWEST
from robot_stack.nodes.teleop.problems import ProblemTeller
from robot_stack.nodes.teleop.source import connect
from robot_stack.types.errors import ConfigError
from robot_stack.types.finding import Level
from robot_stack.types.robot import TeleopSample

READ_HZ = 250.0
"""A real device is read at least this often; the scripted operator moves at the rate of the file."""


class TeleopNode(StackNode):
    """A ROS node that samples a teleop device and publishes what the operator does with each of its arms."""

    def __init__(self, settings: NodeSettings) -> None:
        run, arm = settings.run, settings.options.arm
        if arm not in run.teleops:
            raise ConfigError(f"arm of the teleop device is {arm!r}, must be one of {list(run.teleops)}; check --arm")
        super().__init__(f"teleop_{arm}" if arm else "teleop", settings.namespace, key=settings.key)
        self.show_settings(run, {"": f"teleops.{arm}" if arm else "teleop"})
        config, arms = run.teleops[arm], [arm] if arm else list(run.robots)
        self._kind = config.device
        self._source = connect(self, run, config, arms, wake=self._sample)
        self._meter = RateMeter(config.rate_hz)
        self._commands = {name: self.create_publisher(Joy, topics.teleop(name), NEWEST) for name in arms}
        self._events = self.create_publisher(Joy, topics.EVENTS, EVERY)
        self._said: dict[str, tuple[bool, int, bool]] = {}
        self._teller = ProblemTeller()
        self._pressed_ns = 0
        self._reads = 0
        self._reads_per_message = math.ceil(READ_HZ / config.rate_hz) if self._source.real else 1
        self.steady_timer(config.rate_hz * self._reads_per_message, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """Return a diagnosis of the device and its rate."""
        values = self._meter.values(time.monotonic_ns())
        problem = self._source.problem()
        level = Level.WARN if problem else Level.OK
        return [Diagnosis(task=self._kind, level=level, message=problem or "ok", values=values)]

    def safe_stop(self, reason: str) -> None:
        """Report the device as lost: a deadman that is only released would give control to the policy."""
        lost = TeleopSample(stamp_ns=time.monotonic_ns(), twist=np.zeros(6), lost=True)
        for arm in self._commands:
            self._send(arm, lost)

    def _on_tick(self) -> None:
        self._reads += 1
        self._sample(due=self._reads % self._reads_per_message == 0)

    def _sample(self, due: bool = False) -> None:
        now_ns = time.monotonic_ns()
        if due:
            self._meter.tick(now_ns)
        for arm, sample in self._source.sample(now_ns).items():
            if not self.active:  # as lost: a deadman that is only released would give control to the policy
                sample = replace(sample, deadman=False, lost=True)
            says = (sample.deadman, sample.gripper, sample.lost)
            if due or says != self._said.get(arm):
                self._send(arm, sample)
                self._said[arm] = says
            if sample.events:
                self._press(sample.events)
        self._tell(self._source.problem(), now_ns)

    def _send(self, arm: str, sample: TeleopSample) -> None:
        self._commands[arm].publish(self.sealer.seal(topics.teleop(arm), teleop_to_msg(sample)))

    def _press(self, events: tuple[str, ...]) -> None:
        """Publish key events, never two messages with one stamp: the second would be taken for a repetition."""
        self._pressed_ns = max(time.monotonic_ns(), self._pressed_ns + 1)
        self._events.publish(self.sealer.seal(topics.EVENTS, events_to_msg(events, self._pressed_ns, self._kind)))

    def _tell(self, problem: str, now_ns: int) -> None:
        """Log what is wrong with the device when it changes, and once a second where each message is wrong anew."""
        if not self._teller.is_due(problem, now_ns):
            return
        if problem:
            self.get_logger().warning(problem)
        else:
            self.get_logger().info(f"{self._kind} is there")
        self.publish_diagnostics()


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arm", default="", help="the arm that the device is for; default: all of the cell")


def main() -> int:
    """Run the teleop process and return its exit code."""
    return run_node("teleop", TeleopNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
