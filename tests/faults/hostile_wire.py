"""Hostile messages for every topic of the safety path: replayed, stale, foreign, oversized, malformed. No process of
the cell sends them, and whoever sends them has heard all that the cell says, but cannot read its key.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Header

from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import (
    events_to_msg,
    fault_to_msg,
    frame_of_mode,
    header_of,
    teleop_to_msg,
    twist_to_msg,
    vector_to_msg,
)
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, STATE
from robot_stack.nodes.sealing import Sealer
from robot_stack.types.command import Mode
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import TeleopSample

KINDS = ("replayed", "stale", "unstamped", "foreign", "copied session", "copied seal", "oversized", "malformed")
BIG = 20_000
"""Numbers of an oversized message: 80 to 160 KB, so that a hundred thousand messages end."""


@dataclass(frozen=True, slots=True)
class Target:
    """A topic, and how an eager message of it is made: one that moves something if it is obeyed."""

    kind: type
    topic: str
    profile: QoSProfile
    make: Callable[[int, np.random.Generator], Any]


def targets(arm: str) -> list[Target]:
    """Every topic of the safety path on which a message may move an arm, hide where it is, or end a HOLD.

    A policy's commands are not among them: they are limited, not sealed (`faults.hostile` throws those).
    """

    def twist(stamp_ns: int, rng: np.random.Generator) -> TwistStamped:
        size = float(rng.choice([0.05, 0.2, 1.0, 100.0]))
        return twist_to_msg(rng.normal(size=6) * size, stamp_ns, frame_of_mode("tcp", Mode.POLICY))

    def hand(stamp_ns: int, rng: np.random.Generator) -> Joy:
        press = int(rng.choice([-1, 1]))
        return teleop_to_msg(TeleopSample(stamp_ns=stamp_ns, twist=rng.uniform(-1, 1, 6), deadman=True, gripper=press))

    def state(stamp_ns: int, rng: np.random.Generator) -> JointState:
        pose = [0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]
        return vector_to_msg(np.concatenate([pose, rng.normal(size=12), [0.5], rng.normal(size=14)]), stamp_ns)

    def well(stamp_ns: int, rng: np.random.Generator) -> DiagnosticArray:
        stop = Fault(kind=FaultKind.EMERGENCY_STOP, text="a stranger says so")
        return fault_to_msg(stop if rng.random() < 0.5 else None, arm, stamp_ns)

    return [
        Target(TwistStamped, topics.command(arm), NEWEST, twist),
        Target(JointState, topics.command_gripper(arm), NEWEST, lambda ns, rng: vector_to_msg(rng.random(1), ns)),
        Target(Joy, topics.teleop(arm), NEWEST, hand),
        Target(Joy, topics.EVENTS, EVERY, lambda ns, _: events_to_msg(("arm", "success"), ns, "keyboard")),
        Target(JointState, topics.state(arm), STATE, state),
        Target(DiagnosticArray, topics.fault(arm), LATCHED, well),
        Target(Header, topics.OPERATOR, NEWEST, lambda ns, _: header_of(ns)),
    ]


class Hostile:
    """Makes hostile messages out of eager ones and of what was overheard.

    Args:
        seed: Of what is drawn.
    """

    def __init__(self, seed: int = 0) -> None:
        self.overheard: dict[str, Any] = {}
        """Topic -> a true message of the cell, taken when it was sent."""
        self._rng = np.random.default_rng(seed)
        self._forger = Sealer(WireKey.random(), "safety-00000000")

    def message(self, target: Target, kind: str) -> Any:
        """Make one of that kind."""
        now_ns, rng = time.monotonic_ns(), self._rng
        true = self.overheard.get(target.topic)
        if kind == "replayed" and true is not None:
            return true
        msg = target.make(now_ns, rng)
        header = msg if isinstance(msg, Header) else msg.header
        if kind in ("stale", "unstamped"):
            age_ns = int(rng.choice([200, 2500, 49 * 60_000])) * 1_000_000
            header.stamp = header_of(now_ns - age_ns).stamp if kind == "stale" else Time()
        if kind in ("foreign", "stale", "unstamped", "oversized"):
            msg = self._forger.seal(target.topic, msg)
        if kind in ("copied session", "copied seal") and true is not None:
            theirs = (true if isinstance(true, Header) else true.header).frame_id
            header.frame_id = theirs if kind == "copied seal" else theirs.partition("#")[0]
        if kind == "oversized":
            _swell(msg)
        if kind == "malformed":
            _spoil(msg, rng)
        return msg

    def many(self, count: int, all_targets: list[Target]) -> Iterator[tuple[Target, Any]]:
        """Make so many, of every kind, for every target."""
        for number in range(count):
            target = all_targets[number % len(all_targets)]
            kind = str(self._rng.choice(KINDS, p=[0.2, 0.15, 0.1, 0.2, 0.15, 0.15, 0.005, 0.045]))
            yield target, self.message(target, kind)


def _swell(msg: Any) -> None:
    if isinstance(msg, Joy):
        msg.axes = array("f", bytes(4 * BIG))
    elif isinstance(msg, JointState):
        msg.position = array("d", bytes(8 * BIG))
    elif isinstance(msg, Header):
        msg.frame_id = "x" * (8 * BIG)
    else:
        msg.header.frame_id = "x" * (8 * BIG)


def _spoil(msg: Any, rng: np.random.Generator) -> None:
    bad = float(rng.choice([np.nan, np.inf, 1e300]))
    if isinstance(msg, TwistStamped):
        msg.twist.linear.x = bad
    elif isinstance(msg, JointState):
        msg.position = array("d", [bad] * int(rng.integers(0, 40)))
    elif isinstance(msg, Joy):
        msg.axes, msg.buttons = array("f", [min(bad, 1e30)]), array("i", [99, -1, 7, 3])
    elif isinstance(msg, DiagnosticArray):
        msg.status = []
    else:
        msg.frame_id = "@#"
