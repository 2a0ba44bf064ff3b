"""The reset of the scene before an episode, over DDS, by the simulator or an operator.

Afterwards the scene is seen anew and the cell is armed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from std_msgs.msg import String

from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes.actor.cell_link import CellLink
from robot_stack.nodes.conversion import header_of
from robot_stack.nodes.reset_request import ResetRequest
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError

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
    if all(robot.backend == "sim" for robot in run.robots.values()):  # it must know which way, whoever resets
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
    link.prompts.publish(String(data=prompt))
    wait(lambda: "reset_done" in link.events, deadline_s, lambda: f"nobody has said that it is done: {prompt}")
    link.prompts.publish(String(data=""))
    return time.monotonic_ns()


def _problem(link: CellLink) -> str:
    return link.sync.problem(time.monotonic_ns())


def _not_ready(link: CellLink) -> str:
    mode, reason = link.mode
    remedy = "clear the stop" if mode is Mode.STOP else "press arm"
    return f"mode is {mode}{f' ({reason})' if reason else ''}, must be READY; {remedy}"
