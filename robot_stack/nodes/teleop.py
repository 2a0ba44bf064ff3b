"""ROS 2 face of one teleop device. Device `scripted`: the person of the dry run, with a hand for each arm."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import String

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    events_to_msg,
    mode_from_text,
    stamp_ns_of,
    teleop_to_msg,
    vector_from_msg,
)
from robot_stack.nodes.diagnostics import Diagnosis, RateMeter
from robot_stack.nodes.episode_status import EpisodeStatus
from robot_stack.nodes.person import ScriptedPerson
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, SAMPLED
from robot_stack.nodes.seeing import seen_from_vector
from robot_stack.run.build import build_operator
from robot_stack.types.errors import ConfigError
from robot_stack.types.robot import TeleopSample


class TeleopNode(StackNode):
    """Samples the device at a steady rate and publishes what the person does with each arm that it is for."""

    def __init__(self, settings: NodeSettings) -> None:
        run, arm = settings.run, settings.options.arm
        if arm not in run.teleops:
            raise ConfigError(f"arm of the teleop device is {arm!r}, must be one of {list(run.teleops)}; check --arm")
        super().__init__(f"teleop_{arm}" if arm else "teleop", settings.namespace)
        config = run.teleops[arm]
        self._device = config.device
        self._person = ScriptedPerson(build_operator(run, run.run.seed))
        self._meter = RateMeter(config.rate_hz)
        self._commands = {
            name: self.create_publisher(Joy, topics.teleop(name), NEWEST) for name in ([arm] if arm else run.robots)
        }
        self._events = self.create_publisher(Joy, topics.EVENTS, EVERY)
        self.create_subscription(JointState, topics.SEEN, self._on_seen, SAMPLED)
        self.create_subscription(String, topics.MODE, self._on_mode, LATCHED)
        self.create_subscription(String, topics.STATUS, self._on_status, LATCHED)
        self.create_subscription(String, topics.CLAIM, self._on_claim, EVERY)
        self.steady_timer(config.rate_hz, self._on_tick)

    def diagnose(self) -> list[Diagnosis]:
        """The device and its rate."""
        return [Diagnosis(task=self._device, values=self._meter.values(time.monotonic_ns()))]

    def safe_stop(self, reason: str) -> None:
        """Deadman released."""
        released = TeleopSample(stamp_ns=time.monotonic_ns(), twist=np.zeros(6))
        for commands in self._commands.values():
            commands.publish(teleop_to_msg(released))

    def _on_seen(self, msg: JointState) -> None:
        self._person.see(seen_from_vector(vector_from_msg(msg), stamp_ns_of(msg.header)))

    def _on_mode(self, msg: String) -> None:
        self._person.read_banner(mode_from_text(msg.data)[0], time.monotonic_ns())

    def _on_status(self, msg: String) -> None:
        self._person.follow(EpisodeStatus.from_text(msg.data))

    def _on_claim(self, _: String) -> None:
        self._person.hear_claim(time.monotonic_ns())

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        self._meter.tick(now_ns)
        for arm, sample in self._person.sample(now_ns).items():
            self._commands[arm].publish(teleop_to_msg(sample))
            if sample.events:
                self._events.publish(events_to_msg(sample.events, now_ns, self._device))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arm", default="", help="the arm that the device is for; default: all of the cell")


def main() -> int:
    """Entry point of the process."""
    return run_node("teleop", TeleopNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
