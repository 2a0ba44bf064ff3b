"""Builds the safety filter of a cell. Apart from the simulator's builders: the safety process loads no simulator."""

from __future__ import annotations

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.limits import SafetyLimits
from robot_stack.control.safety import SafetyFilter


def build_safety(resolved: ResolvedRun) -> SafetyFilter:
    """The safety filter of a cell's arm."""
    settings = resolved.safety.model_dump(exclude={"rate_hz"})
    workspace = resolved.cell.workspace
    limits = SafetyLimits(
        **settings,
        box_min_m=workspace.min_m,
        box_max_m=workspace.max_m,
    )
    scale = ActionSpace(resolved.spec()).full_scale(resolved.robot.name)
    share = np.array([resolved.teleop.scale.linear] * 3 + [resolved.teleop.scale.angular] * 3)
    return SafetyFilter(
        limits,
        resolved.robot.name,
        teleop_scale=scale * share,
        release_s=resolved.teleop.release_s,
        blend_s=resolved.teleop.blend_s,
    )
