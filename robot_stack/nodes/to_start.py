"""The arm's own way to the start of an episode, over DDS: decisions live in robot_stack.control.reset."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.reset import ResetMotion, ResetSettings, random_start
from robot_stack.nodes.cell_link import CellLink
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose

PERIOD_S = 0.05


def go_to_start(
    link: CellLink, run: ResolvedRun, seed: int, deadline_s: float, send: Callable[[np.ndarray], None]
) -> None:
    """Drive to a start drawn by `seed`, past the safety filter like any policy; in a HOLD wait for a person.

    Args:
        link: What is heard of the cell.
        run: Its task names the pose, its cell says where that is.
        seed: Of the reset.
        deadline_s: On the monotonic clock.
        send: Offers a twist (6,), tcp frame, to the safety filter.

    Raises:
        RobotError: If the way ends in a STOP, or the start is not reached in time.
    """
    start = run.task.reset.start
    assert start is not None
    taught = run.cell.poses[start.pose]
    at = Pose(position_m=np.array(taught.position_m), quaternion_xyzw=np.array(taught.quaternion_xyzw))
    goal = random_start(at, np.random.default_rng(seed), np.array(start.range_m), start.yaw_rad)
    settings = ResetSettings(
        clearance_m=start.clearance_m, speed_m_s=start.speed_m_s, rotation_speed_rad_s=start.rotation_speed_rad_s
    )
    motion = ResetMotion(goal, settings)
    while True:
        with link.locked():
            state, (mode, reason) = link.states.get(run.robot.name), link.mode
        twist = np.zeros(6) if state is None else motion.twist(state)
        if twist is None:
            return
        if mode in (Mode.STOP, Mode.DISARMED):
            raise RobotError(f"way to the start ended in {mode}: {reason}")
        if time.monotonic() > deadline_s:
            limit_s, why = run.task.reset.timeout_s, reason or "free the way"
            raise RobotError(f"start is not reached within {limit_s:g} s, mode {mode}: {why}; then go on")
        send(twist)
        time.sleep(PERIOD_S)
