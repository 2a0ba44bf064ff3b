"""Builds the safety filter of a cell. Apart from the simulator's builders: the safety process loads no simulator."""

from __future__ import annotations

import numpy as np

from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.arm_filter import GuardedArm
from robot_stack.control.limits import SafetyLimits
from robot_stack.control.safety import SafetyFilter


def build_safety(resolved: ResolvedRun) -> SafetyFilter:
    """The safety filter of a cell's arms."""
    space = ActionSpace(resolved.spec())
    return SafetyFilter({name: _guarded(resolved, arm, space) for name, arm in resolved.arms.items()})


def _guarded(resolved: ResolvedRun, arm: RunArm, space: ActionSpace) -> GuardedArm:
    """The limits of the cell with the arm's own box, and how its device drives it."""
    limits = SafetyLimits(
        **resolved.safety.model_dump(exclude={"rate_hz"}),
        box_min_m=arm.workspace.min_m,
        box_max_m=arm.workspace.max_m,
    )
    return GuardedArm(
        limits=limits,
        teleop_scale=teleop_scale(arm, space),
        release_s=arm.teleop.release_s,
        blend_s=arm.teleop.blend_s,
    )


def teleop_scale(arm: RunArm, space: ActionSpace) -> np.ndarray:
    """Twist that a full deflection asks for, shape (6,), m/s and rad/s; 0 on axes that the task does not move."""
    scale = arm.teleop.scale
    return np.asarray(space.full_scale(arm.name) * np.array([scale.linear] * 3 + [scale.angular] * 3))
