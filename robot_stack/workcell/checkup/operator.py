"""Checks that only an operator can do: every axis of the device, its keys, the emergency stop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from robot_stack.types.finding import Finding
from robot_stack.workcell.checkup.finding import fail, ok, warn

MOVED = 0.3
"""Deflection that counts as moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The reach of one axis to either side: lowest and highest deflection seen, in [-1, 1]."""

    low: float = 0.0
    high: float = 0.0

    def widened(self, value: float) -> Reach:
        """Return the reach after one more sample."""
        return Reach(low=min(self.low, value), high=max(self.high, value))


def unmoved(reaches: Mapping[str, Reach], axes: Collection[str]) -> list[str]:
    """Return what is still to be moved, such as "x+" and "rz-"."""
    missing = []
    for axis in axes:
        reach = reaches.get(axis, Reach())
        missing += [f"{axis}+"] if reach.high <= MOVED else []
        missing += [f"{axis}-"] if reach.low >= -MOVED else []
    return missing


def judge_axes(device: str, reaches: Mapping[str, Reach], axes: Collection[str], *, deadman: bool) -> Finding:
    """Judge whether every axis that the task needs moved both ways, and the deadman was pressed."""
    missing = unmoved(reaches, axes)
    if len(missing) == 2 * len(axes):
        return fail("teleop", f"{device}: no axis ever moved; is another device read, or none?")
    if missing:
        return warn("teleop", f"{device}: {', '.join(missing)} never moved; move them, or check the axes of the device")
    if not deadman:
        return fail(
            "teleop", f"{device}: every axis moves, its deadman was never pressed; without it nobody takes over"
        )
    return ok("teleop", f"{device}: {', '.join(axes)} move both ways, deadman pressed")


def judge_estop(*, pressed: bool, seen_ms: float | None, released: bool, refusal: str) -> Finding:
    """Judge the emergency stop by what an operator did with it.

    Args:
        pressed: The cell went to STOP.
        seen_ms: How long that took, if it can be told.
        released: The stop could be cleared again.
        refusal: Why not, if the safety process said so.
    """
    if not pressed:
        return fail("estop", "was not seen pressed, must stop the cell; check its wiring and its topic, or try again")
    took = f", seen in {seen_ms:.0f} ms" if seen_ms is not None else ""
    if not released:
        return warn("estop", f"pressed{took}, not cleared: {refusal or 'nobody asked'}; release it, clear the stop")
    return ok("estop", f"pressed and released{took}")


def skipped(check: str, why: str) -> Finding:
    """Return a warning that a check needs an operator and none was asked."""
    return warn(check, f"not checked: {why}")
