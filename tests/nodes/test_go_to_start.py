"""The way of an arm to its start, what it waits for, and how long its process is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.cell import TaughtPose
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.task import StartConfig
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.control.safety.bounds import inside_box
from robot_stack.control.safety.seal import WireKey
from robot_stack.control.safety.tool_turns import TurnCounter
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_arm import build_chain, build_limits
from robot_stack.workcell.build_safety import limits_of

pytest.importorskip("rclpy", reason="no ROS on this machine")

PLACE = np.array([0.5, 0.0, 0.2])
HELD = Refusal(kind=RefusalKind.STALE, text="policy silent for 160 ms")


class Link:
    """What is heard of a cell whose arm stands at its start."""

    def __init__(self, mode: Mode, arm: str) -> None:
        pose = Pose(position_m=PLACE, quaternion_xyzw=np.array([1.0, 0.0, 0.0, 0.0]))
        state = RobotState(
            arm=arm,
            stamp_ns=time.monotonic_ns(),
            T_base_tcp=pose,
            twist=np.zeros(6),
            wrench=np.zeros(6),
            joints_rad=np.zeros(7),
            joint_speeds_rad_s=np.zeros(7),
            gripper=0.5,
        )
        self.turns = {arm: TurnCounter(None)}
        self.states, self.mode = {arm: state}, (mode, HELD if mode is Mode.HOLD else None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield


@pytest.fixture(scope="module")
def run() -> ResolvedRun:
    run = load_run("peg_insert", [])
    pose = TaughtPose(joints_rad=(0.0,) * 7, position_m=tuple(PLACE), quaternion_xyzw=(1.0, 0.0, 0.0, 0.0))
    reset = run.task.reset.model_copy(update={"start": StartConfig(pose="here", clearance_m=0.0)})
    cell = run.cell.model_copy(update={"poses": {"here": pose}})
    return replace(run, cell=cell, task=run.task.model_copy(update={"reset": reset}))


def test_an_arm_that_is_there_has_arrived(run: ResolvedRun) -> None:
    from robot_stack.nodes.actor.scene_reset import go_to_start

    sent: list[object] = []
    go_to_start(Link(Mode.POLICY, "fr3"), run, 1, time.monotonic() + 5.0, sent.append)
    assert sent == []


def test_an_arm_that_is_held_at_its_start_waits_until_an_operator_resumes(run: ResolvedRun) -> None:
    """An episode cannot begin in HOLD."""
    from robot_stack.nodes.actor.scene_reset import go_to_start

    link, sent = Link(Mode.HOLD, "fr3"), []

    def send(twists: dict[str, np.ndarray]) -> None:
        sent.append(twists)
        if len(sent) == 3:
            link.mode = (Mode.POLICY, None)

    go_to_start(link, run, 1, time.monotonic() + 5.0, send)
    assert len(sent) == 3
    assert not any(twists["fr3"].any() for twists in sent)


@pytest.mark.parametrize("pushed_out", [False, True])
def test_an_arm_beside_its_box_comes_in_before_its_joints_go_straight_to_their_start(run, pushed_out: bool) -> None:
    """The line of the joints bulges outward here, and outside only motion back in is let through."""
    from robot_stack.nodes.actor.scene_reset import _way

    arm = run.arms["fr3"]
    chain, joints = build_chain(arm.robot), build_limits(arm.robot)
    solver, beside, goal = JointMotionSolver(chain, joints), joints.home.copy(), joints.home.copy()
    beside[0], goal[0], goal[3] = -0.6, 0.6, goal[3] - 0.15
    at, wall_m = chain.pose(goal), float(chain.pose(beside).position_m[0]) - 0.01
    pose = TaughtPose(
        joints_rad=tuple(goal), position_m=tuple(at.position_m), quaternion_xyzw=tuple(at.quaternion_xyzw)
    )
    box = {"box_min_m": (0.1, -0.6, 0.0), "box_max_m": (wall_m, 0.6, 1.0)}
    start = StartConfig(pose="here", clearance_m=0.0, path="joints")
    arm = replace(arm, start=start, poses={"here": pose})
    way = _way(arm, np.random.default_rng(0), replace(limits_of(run)["fr3"], **box), TurnCounter(None))
    angles, state = beside.copy(), Link(Mode.POLICY, "fr3").states["fr3"]
    if pushed_out:
        inside = replace(state, T_base_tcp=at, joints_rad=goal + 0.1)
        assert way.twist(inside) is not None
    for _ in range(1500):
        tcp = chain.pose(angles)
        wanted = way.twist(replace(state, T_base_tcp=tcp, joints_rad=angles))
        if wanted is None:
            break
        base = rotate_twist(wanted, tcp.matrix)
        base[:3] = inside_box(base[:3], tcp.position_m, np.array(box["box_min_m"]), np.array(box["box_max_m"]), 0.2)
        angles = angles + 0.02 * solver.solve(angles, rotate_twist(base, tcp.matrix.T)).speeds
    assert wanted is None, f"stands at {tcp.position_m}"


def test_a_hold_that_nobody_ends_is_named(run: ResolvedRun) -> None:
    from robot_stack.nodes.actor.scene_reset import go_to_start

    with pytest.raises(RobotError, match=r"mode HOLD: .*policy silent for 160 ms"):
        go_to_start(Link(Mode.HOLD, "fr3"), run, 1, time.monotonic() + 0.2, lambda _: None)


def test_the_turns_of_a_tool_are_counted_from_state_to_state(run: ResolvedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    import rclpy

    from robot_stack.nodes import topics
    from robot_stack.nodes.actor.cell_link import CellLink
    from robot_stack.nodes.conversion import state_to_msg

    monkeypatch.setenv("ROS_DOMAIN_ID", "80")
    rclpy.init()
    try:
        link = CellLink(run, "cell", WireKey(b"k" * 32))
        state = Link(Mode.POLICY, "fr3").states["fr3"]
        home = Rotation.from_quat(state.T_base_tcp.quaternion_xyzw)
        for turn_rad in np.linspace(0.0, 4.0, 9):
            pose = Pose.from_rotation(PLACE, home * Rotation.from_euler("z", turn_rad))
            msg = state_to_msg(replace(state, T_base_tcp=pose, stamp_ns=time.monotonic_ns()))
            link._on_state("fr3", link.sealer.seal(topics.state("fr3"), msg))
        assert link.turns["fr3"].turn_rad == pytest.approx(4.0, abs=0.02)
        link.destroy_node()
    finally:
        rclpy.try_shutdown()


def test_who_runs_episodes_is_not_killed_while_it_waits_for_a_safety_process_that_is_gone() -> None:
    from robot_stack.nodes.actor.cell import SERVICE_TIMEOUT_S
    from robot_stack.processes.table import ACTOR_GRACE_S, SESSION_GRACE_S

    assert SESSION_GRACE_S > SERVICE_TIMEOUT_S + 1.0
    assert ACTOR_GRACE_S > SERVICE_TIMEOUT_S + 5.0 + 1.0, "and 5 s for the learner to have what was recorded"
