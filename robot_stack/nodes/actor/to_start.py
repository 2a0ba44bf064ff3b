"""The arms' own motion to the start of an episode, over DDS; decisions live in robot_stack.control.reset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.reset import Chained, JointResetMotion, Motion, ResetMotion, ResetSettings, random_start
from robot_stack.nodes.actor.cell_link import CellLink
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose
from robot_stack.workcell.build_arm import build_chain

PERIOD_S = 0.05


def go_to_start(
    link: CellLink, run: ResolvedRun, seed: int, deadline_s: float, send: Callable[[Mapping[str, np.ndarray]], None]
) -> None:
    """Drive the arms to starts drawn by `seed`, through the safety filter; in a HOLD wait for an operator.

    Args:
        link: What is heard of the cell.
        run: Its task names the poses, its cell says where they are.
        seed: Of the reset.
        deadline_s: On the monotonic clock.
        send: Offers a twist (6,) for every arm, tcp frame, to the safety filter.

    Raises:
        RobotError: If the way ends in a STOP, or a start is not reached in time.
    """
    rng = np.random.default_rng(seed)
    ways = {name: _way(arm, rng) for name, arm in run.arms.items()}
    while True:
        with link.locked():
            states, (mode, reason) = dict(link.states), link.mode
        twists, done = {}, True
        for name, way in ways.items():
            wanted = way.twist(states[name]) if name in states else np.zeros(6)
            done = done and wanted is None
            twists[name] = np.zeros(6) if wanted is None else wanted
        if done:
            return
        if mode in (Mode.STOP, Mode.DISARMED):
            raise RobotError(f"way to the start ended in {mode}: {reason}")
        if time.monotonic() > deadline_s:
            limit_s, why = run.task.reset.timeout_s, reason or "free the way"
            raise RobotError(f"start is not reached within {limit_s:g} s, mode {mode}: {why}; then go on")
        send(twists)
        time.sleep(PERIOD_S)


def _way(arm: RunArm, rng: np.random.Generator) -> Motion:
    """Build the motion of one arm to its start, an empty one for an arm that has no start."""
    start = arm.start
    if start is None:
        return Chained([])
    taught = arm.poses[start.pose]
    at = Pose(position_m=np.array(taught.position_m), quaternion_xyzw=np.array(taught.quaternion_xyzw))
    goal = random_start(at, rng, np.array(start.range_m), start.yaw_rad)
    settings = ResetSettings(
        clearance_m=start.clearance_m, speed_m_s=start.speed_m_s, rotation_speed_rad_s=start.rotation_speed_rad_s
    )
    if start.path == "over":
        return ResetMotion(goal, settings)
    chain = build_chain(arm.robot)
    assert chain is not None  # checked with the configuration
    joints = JointResetMotion(np.array(taught.joints_rad), chain, settings)
    return Chained([joints, ResetMotion(goal, replace(settings, clearance_m=0.0))])
