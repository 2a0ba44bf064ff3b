"""Defects that other stacks have had between a policy and an arm; each must be impossible here."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from robot_stack.control.drivers.arm_sense import JointReader
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.driver_health import DriverHealth, Input
from robot_stack.control.drivers.pose_target import PoseTargetCore
from robot_stack.control.kinematics.chain import Chain, ChainJoint
from robot_stack.control.kinematics.joint_motion import JointLimits, JointMotionSolver
from robot_stack.control.safety.bounds import inside_box
from tests.control.fr3_chain import HOME, chain_of

ROOT = Path(__file__).resolve().parents[2] / "robot_stack"
HOUR_NS = 3600 * 1_000_000_000


def test_a_floor_at_zero_is_a_floor() -> None:
    low, high = np.array([-1.0, -1.0, 0.0]), np.array([1.0, 1.0, 1.0])
    down = inside_box(np.array([0, 0, -0.2]), np.array([0.0, 0.0, 0.0]), low, high, approach_s=0.1)
    assert down[2] == 0.0


def test_a_joint_that_ends_at_zero_ends_there() -> None:
    tip = np.eye(4)
    tip[0, 3] = 0.5
    chain = Chain([ChainJoint(name="a", origin=np.eye(4), axis=np.array([0.0, 0.0, 1.0]))], tip)
    limits = JointLimits(lower=np.zeros(1), upper=np.ones(1), speed=np.ones(1), home=np.zeros(1))
    motion = JointMotionSolver(chain, limits).solve(np.zeros(1), np.array([0, -0.1, 0, 0, 0, -0.2]))
    assert motion.speeds[0] == 0.0


def test_the_target_of_a_dead_commander_is_not_kept_fresh() -> None:
    core, chain = PoseTargetCore(0.05, 0.2), chain_of("fr3_franka")
    fast, measured = np.array([0.5, 0, 0, 0, 0, 0]), chain.pose(HOME)

    def send(twist, *, live: bool):
        return core.step(DriverCommand(twist=twist, live=live, pose=measured, angles=HOME, dt_s=0.04))

    for _ in range(10):
        ahead = send(fast, live=True)
    assert ahead is not None
    assert np.linalg.norm(ahead.position_m - measured.position_m) > 0.04
    after = [send(np.zeros(6), live=False) for _ in range(50)]
    assert all(pose is None or np.allclose(pose.position_m, measured.position_m) for pose in after)
    assert after[-1] is None


@pytest.mark.parametrize("offset_ns", [-HOUR_NS, 0, HOUR_NS])
def test_ages_do_not_follow_anybodys_wall_clock(offset_ns: int) -> None:
    health, joints = DriverHealth("/cell/a/recover"), JointReader(["a"], "/joint_states")
    health.expect(Input(name="joint states", topic="/joint_states", timeout_s=0.1))
    now_ns = 2 * HOUR_NS
    for tick in range(5):
        now_ns += 10_000_000
        assert joints.take(["a"], np.zeros(1), np.zeros(1), now_ns + offset_ns + tick, now_ns) is None
        health.heard("joint states", now_ns)
        assert health.reason(now_ns) is None
    assert joints.newest is not None
    assert joints.newest.arrived_ns == now_ns
    assert health.reason(now_ns + 101_000_000) is not None


def uses_of(words: tuple[str, ...], source: str) -> list[str]:
    names = (ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return [name for name in names if name.endswith(words)]


WALL_CLOCK = {
    "console.py": ["time.time"] * 7,
    "doctor.py": ["time.time"],
    "session.py": ["time.time"],
    "shared_memory.py": ["time.time"],
}
"""No part of the way: one writes the hour into the journal, one compares the wall clocks of hosts, one asks how long
ago a verdict was given, one looks at how old files are."""


@pytest.mark.long
def test_no_wall_clock_and_no_endless_queue_between_safety_and_the_motors() -> None:
    forbidden = ("time.time", "KEEP_ALL")
    assert uses_of(forbidden, "age = time.time() - stamp") == ["time.time"]
    assert uses_of(forbidden, "HistoryPolicy.KEEP_ALL") == ["HistoryPolicy.KEEP_ALL"]
    files = [path for folder in ("control", "nodes", "processes") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    assert {path.name: found for path in files if (found := uses_of(forbidden, path.read_text()))} == WALL_CLOCK
