"""Builds the safety filter of a cell. Apart from the simulator's builders: the safety process loads no simulator."""

from __future__ import annotations

import numpy as np

from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.arm_filter import GuardedArm
from robot_stack.control.limits import JointLimit, SafetyLimits
from robot_stack.control.safety import SafetyFilter


def build_safety(resolved: ResolvedRun) -> SafetyFilter:
    """The safety filter of a cell's arms."""
    space, limits = ActionSpace(resolved.spec()), limits_of(resolved)
    arms = {
        name: GuardedArm(
            limits=limits[name],
            teleop_scale=teleop_scale(arm, space),
            release_s=arm.teleop.release_s,
            blend_s=arm.teleop.blend_s,
        )
        for name, arm in resolved.arms.items()
    }
    return SafetyFilter(
        arms,
        stop_input_timeout_s=resolved.cell.stop_input_timeout_s,
        operator_required=resolved.run.operator_required,
    )


def limits_of(resolved: ResolvedRun) -> dict[str, SafetyLimits]:
    """What each arm of a cell may do, by its files."""
    return {name: _limits(resolved, arm) for name, arm in resolved.arms.items()}


def _limits(resolved: ResolvedRun, arm: RunArm) -> SafetyLimits:
    """The limits of the cell with the arm's own box and joints."""
    joints = tuple(
        JointLimit(name=j.name, min_rad=j.min_rad, max_rad=j.max_rad, max_speed_rad_s=j.max_speed_rad_s)
        for j in arm.robot.joints
    )
    return SafetyLimits(
        **resolved.safety.model_dump(exclude={"rate_hz"}),
        box_min_m=arm.workspace.min_m,
        box_max_m=arm.workspace.max_m,
        joints=joints,
    )


def teleop_scale(arm: RunArm, space: ActionSpace) -> np.ndarray:
    """Twist that a full deflection asks for, shape (6,), m/s and rad/s; 0 on axes that the task does not move."""
    scale = arm.teleop.scale
    return np.asarray(space.full_scale(arm.name) * np.array([scale.linear] * 3 + [scale.angular] * 3))
