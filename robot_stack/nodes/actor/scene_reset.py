"""The way to the start of an episode, over DDS: the scene is put back, by the simulator or an operator, and arms move.

Once the scene is put back, it is seen anew and the cell is armed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.reset import Chained, JointResetMotion, Motion, ResetMotion, ResetSettings, random_start
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.tool_turns import TurnCounter
from robot_stack.nodes.actor.cell_link import CellLink
from robot_stack.nodes.conversion import header_of
from robot_stack.nodes.episode_status import ResetRequest
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose
from robot_stack.workcell.build_arm import build_chain, build_limits
from robot_stack.workcell.build_safety import limits_of

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
    limits = limits_of(run)
    ways = {name: _way(arm, rng, limits[name], link.turns[name]) for name, arm in run.arms.items()}
    while True:
        with link.locked():
            states, (mode, reason) = dict(link.states), link.mode
        twists, done = {}, True
        for name, way in ways.items():
            wanted = way.twist(states[name]) if name in states else np.zeros(6)
            done = done and wanted is None
            twists[name] = np.zeros(6) if wanted is None else wanted
        if done and mode is not Mode.HOLD:
            return
        if mode in (Mode.STOP, Mode.DISARMED):
            raise RobotError(f"way to the start ended in {mode}: {reason}")
        if time.monotonic() > deadline_s:
            limit_s, why = run.task.reset.timeout_s, reason or "free the way"
            raise RobotError(f"start is not reached within {limit_s:g} s, mode {mode}: {why}; then go on")
        send(twists)
        time.sleep(PERIOD_S)


def _way(arm: RunArm, rng: np.random.Generator, limits: SafetyLimits, turns: TurnCounter) -> Motion:
    """Build the motion of one arm to its start, an empty one for an arm that has no start."""
    start = arm.start
    if start is None:
        return Chained([])
    taught = arm.poses[start.pose]
    at = Pose(position_m=np.array(taught.position_m), quaternion_xyzw=np.array(taught.quaternion_xyzw))
    goal = random_start(at, rng, np.array(start.range_m), start.yaw_rad, limits)
    settings = ResetSettings(
        clearance_m=start.clearance_m, speed_m_s=start.speed_m_s, rotation_speed_rad_s=start.rotation_speed_rad_s
    )
    if start.path == "over":
        return ResetMotion(goal, settings, limits, turns)
    chain = build_chain(arm.robot)
    assert chain is not None  # checked with the configuration
    joints = JointResetMotion(np.array(taught.joints_rad), chain, build_limits(arm.robot), settings, limits)
    return Chained([joints, ResetMotion(goal, replace(settings, clearance_m=0.0), limits, turns)])


Await = Callable[[Callable[[], bool], float, Callable[[], str]], None]
"""Condition, deadline on the monotonic clock, and what to say if it does not come: waits, or raises RobotError."""


def make_ready(link: CellLink, run: ResolvedRun, request: ResetRequest, deadline_s: float, wait: Await) -> None:
    """Put the scene back as requested, then wait for fresh images and state, and for an operator who arms the cell.

    Args:
        link: To the cell.
        run: Its task says who puts the scene back.
        request: Seed of a simulated scene, and whether the scene is put back at all.
        deadline_s: On the monotonic clock.
        wait: For each step.

    Raises:
        RobotError: If a step fails, or does not come in time.
    """
    by_operator = run.task.reset.by == "operator"
    done_ns = _by_operator(link, run, deadline_s, wait) if by_operator and request.scene else time.monotonic_ns()
    if run.simulated:  # it must know which way, whoever resets
        asked = replace(request, scene=request.scene and not by_operator)
        done_ns = _by_robot(link, asked.to_text(), deadline_s, wait)
    wait(
        lambda: min(link.stamps_ns.values()) > done_ns and not _problem(link),
        deadline_s,
        lambda: _problem(link) or "no fresh images after the reset",
    )
    wait(lambda: link.mode[0] is Mode.READY, deadline_s, lambda: _not_ready(link))


def _by_robot(link: CellLink, request: str, deadline_s: float, wait: Await) -> int:
    """Have the simulator place arm and objects, and return when it had, in ns on the monotonic clock."""
    asked_ns = time.monotonic_ns()
    link.reset_request.publish(header_of(asked_ns, request))
    wait(lambda: link.reset_done[0] >= asked_ns, deadline_s, lambda: "robot has not answered the reset")
    done_ns, answer = link.reset_done
    if answer != request:
        raise RobotError(f"reset failed: {answer}")
    return done_ns


def _by_operator(link: CellLink, run: ResolvedRun, deadline_s: float, wait: Await) -> int:
    """Wait for an operator to place the objects and say so, and return when they had, in ns on the monotonic clock."""
    prompt = run.task.reset.prompt
    with link.locked():
        link.events.clear()
    link.prompts.say(prompt)
    wait(lambda: "reset_done" in link.events, deadline_s, lambda: f"nobody has said that it is done: {prompt}")
    link.prompts.say("")
    return time.monotonic_ns()


def _problem(link: CellLink) -> str:
    return link.sync.problem(time.monotonic_ns())


def _not_ready(link: CellLink) -> str:
    mode, reason = link.mode
    remedy = "clear the stop" if mode is Mode.STOP else "press arm"
    return f"mode is {mode}{f' ({reason})' if reason else ''}, must be READY; {remedy}"
