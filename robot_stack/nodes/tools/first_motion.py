"""A stand-in for the teleop process in `robot-stack doctor CELL --move`: the operator's deadman, a script's motion.

The device is the cell's own and is read as always; while its deadman is held, the twist is that of the first motion. So
the arm moves as it does for a hand: through the safety process, with every limit, and not a moment after letting go. A
policy could not do it: the arm is given to whoever holds the deadman.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_stack.config.resolved import RunArm
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.drivers.first_motion import SPEED_SHARE, AxisVerdict, FirstMotion, Trouble, judge
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, run_node
from robot_stack.nodes.conversion import mode_from_text, state_from_msg
from robot_stack.nodes.qos import LATCHED, SAMPLED
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.nodes.state_admission import StateAdmission
from robot_stack.nodes.teleop.node import TeleopNode
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import TeleopSample
from robot_stack.types.spec import AXES
from robot_stack.workcell.build_arm import turns_freely
from robot_stack.workcell.build_safety import teleop_scale

RESULT = "doctor/first_motion"
"""Latched: a JSON list of verdicts of one arm, once it has been moved along all axes."""
SCRIPT_HOLDS_NS = 1_000_000_000
"""A script at the device holds the deadman after this: a simulated arm hurts nobody."""


def result_topic(arm: str) -> str:
    """Return the topic of the verdicts about an arm."""
    return f"{arm}/{RESULT}"


def verdicts_of(text: str) -> list[AxisVerdict]:
    """Parse the verdicts in a message on `result_topic`."""
    return [AxisVerdict(kind=Trouble(each["kind"]), axis=each["axis"], text=each["text"]) for each in json.loads(text)]


class ArmMotion:
    """The first motion of one arm, in shares of full deflection."""

    def __init__(self, arm: RunArm, space: ActionSpace, speed_m_s: float, rotation_speed_rad_s: float) -> None:
        self.pose: Pose | None = None
        self.turns = turns_freely(arm.robot)
        self.scale = teleop_scale(arm, space)
        self.axes = [axis for axis, scale in zip(AXES, self.scale, strict=True) if scale > 0.0]
        linear = [scale for scale in self.scale[:3] if scale > 0.0]
        angular = [scale for scale in self.scale[3:] if scale > 0.0]
        self.motion = FirstMotion(
            self.axes,
            speed_m_s=min([speed_m_s, *linear]),
            rotation_speed_rad_s=min([rotation_speed_rad_s, *angular]),
        )

    def share(self, now_ns: int, *, held: bool) -> np.ndarray:
        """Return the deflection to show now, shape (6,), in [-1, 1]."""
        if self.pose is None:
            return np.zeros(6)
        twist = self.motion.twist(self.pose, now_ns, held=held)
        return np.divide(twist, self.scale, out=np.zeros(6), where=self.scale > 0.0)


class FirstMotionNode(TeleopNode):
    """A teleop process whose device gives the deadman, and whose motion is the first one of each arm in turn."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings)
        run, limits = settings.run, settings.run.safety
        space = ActionSpace(run.spec())
        speeds = SPEED_SHARE * limits.max_speed_m_s, SPEED_SHARE * limits.max_rotation_speed_rad_s
        self._motions = {name: ArmMotion(run.arms[name], space, *speeds) for name in self._commands}
        self._device, self._scripted = self._source.sample, not self._source.real
        self._source = replace(self._source, sample=self._guided)
        self._admitted = {arm: StateAdmission(self.sealer, arm) for arm in self._motions}
        self._began_ns = time.monotonic_ns()
        self._mode = Mode.DISARMED
        self._results = {arm: self.create_publisher(String, result_topic(arm), LATCHED) for arm in self._motions}
        self._told: set[str] = set()
        listen_to_text(self, topics.MODE, self._on_mode)
        for arm in self._motions:
            self.create_subscription(JointState, topics.state(arm), partial(self._on_state, arm), SAMPLED)

    def _guided(self, now_ns: int) -> Mapping[str, TeleopSample]:
        samples = self._device(now_ns)
        held = any(sample.deadman for sample in samples.values())
        if self._scripted:
            held = now_ns - self._began_ns > SCRIPT_HOLDS_NS and self._mode is Mode.HUMAN
        driven = next((arm for arm, each in self._motions.items() if not each.motion.done), None)
        found = {}
        for arm, sample in samples.items():
            mine = arm == driven
            share = self._motions[arm].share(now_ns, held=held and self._mode is Mode.HUMAN) if mine else np.zeros(6)
            found[arm] = replace(sample, twist=share, deadman=held and mine, gripper=0)
        self._tell_results()
        return found

    def _tell_results(self) -> None:
        for arm, each in self._motions.items():
            if each.motion.done and arm not in self._told:
                self._told.add(arm)
                verdicts = [asdict(verdict) for verdict in judge(each.motion.moved, turns=each.turns)]
                self._results[arm].publish(String(data=json.dumps(verdicts)))

    def _on_mode(self, text: str) -> None:
        self._mode, _ = mode_from_text(text)

    def _on_state(self, arm: str, msg: JointState) -> None:
        if self._admitted[arm].refusal(msg) is not None:
            return
        try:
            self._motions[arm].pose = state_from_msg(msg, arm).T_base_tcp
        except SpecError as error:
            self.get_logger().warning(f"{topics.state(arm)}: {error}", throttle_duration_sec=1.0)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arm", default="", help="the arm that the device is for; default: all of the cell")


def main() -> int:
    """Run the process in place of the teleop process and return its exit code."""
    return run_node("teleop", FirstMotionNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
