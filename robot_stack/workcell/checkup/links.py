"""A check of the arms' links: whether the safety process watches them, and what in the cell they keep clear of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.kinematics.body import ArmBody
from robot_stack.types.finding import Finding
from robot_stack.workcell.build_arm import build_chain
from robot_stack.workcell.build_safety import limits_of, unwatched_of
from robot_stack.workcell.checkup.finding import ok, warn

BELOW_M = 0.01
"""A floor of the workspace may be so much lower than the tool can come."""
UPRIGHT = 0.999
"""Cosine of the lean of a base, at least: of others the workspace has no floor."""


def judge(resolved: ResolvedRun) -> Finding:
    """Judge the watch over links: name arms without it, or say what the links are watched against."""
    unwatched, around = unwatched_of(resolved), resolved.cell.surroundings
    if unwatched:
        arms = "; ".join(f"{name}: {reason}" for name, reason in unwatched.items())
        return warn("links", f"only the TCP is watched, links may hit table, walls and each other. {arms}")
    if around.table_z_m is None and around.walls is None and not around.keep_out:
        text = "watched against themselves, not against the table; write 'surroundings' in the cell's file"
        return warn("links", text)
    low = list(_low_floors(resolved))
    if low:
        return warn("links", "; ".join(low))
    parts = ["table"] if around.table_z_m is not None else []
    parts += ["walls"] if around.walls is not None else []
    return ok("links", f"watched against themselves, {', '.join([*parts, *around.keep_out])}")


def _low_floors(resolved: ResolvedRun) -> Iterator[str]:
    """Name each upright arm whose workspace begins lower than a tool straight down may come to the table."""
    limits, table_z_m = limits_of(resolved), resolved.cell.surroundings.table_z_m
    for name, arm in resolved.arms.items():
        body, base = limits[name].body, arm.T_cell_base
        if body is None or table_z_m is None or base.matrix[2, 2] < UPRIGHT:
            continue
        chain = build_chain(arm.robot)
        assert chain is not None  # it has a body
        floor_m, least_m = arm.workspace.min_m[2], table_z_m - base.position_m[2] + _beyond_tcp_m(body, chain.tip)
        if floor_m < least_m - BELOW_M:
            yield (
                f"workspace of {name} begins at {floor_m:.3f} m, must be {least_m:.3f} m or more: the hand is kept "
                "clear of the table; raise min_m, or give 'collision' of the robot file thinner fingers"
            )


def _beyond_tcp_m(body: ArmBody, tip: np.ndarray) -> float:
    """Return how far hand and margin reach beyond the TCP along the tool's axis; tip (4, 4), in the last link."""
    ends = [
        (np.array([part.from_m, part.to_m]) - tip[:3, 3]) @ tip[:3, 2] + part.radius_m
        for part in body.capsules
        if part.link == len(body.axes)
    ]
    return float(np.max(ends, initial=0.0)) + body.margin_m
