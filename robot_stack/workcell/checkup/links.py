"""A check of the arms' links: whether the safety process watches them, and what in the cell they keep clear of."""

from __future__ import annotations

from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.finding import Finding
from robot_stack.workcell.build_safety import unwatched_of
from robot_stack.workcell.checkup.finding import ok, warn


def judge(resolved: ResolvedRun) -> Finding:
    """Judge the watch over links: name arms without it, or say what the links are watched against."""
    unwatched, around = unwatched_of(resolved), resolved.cell.surroundings
    if unwatched:
        arms = "; ".join(f"{name}: {reason}" for name, reason in unwatched.items())
        return warn("links", f"only the TCP is watched, links may hit table, walls and each other. {arms}")
    if around.table_z_m is None and around.walls is None and not around.keep_out:
        text = "watched against themselves, not against the table; write 'surroundings' in the cell's file"
        return warn("links", text)
    parts = ["table"] if around.table_z_m is not None else []
    parts += ["walls"] if around.walls is not None else []
    return ok("links", f"watched against themselves, {', '.join([*parts, *around.keep_out])}")
