"""Proves, from a log alone, that what reached the robot was safe. The oracle of fault tests and of real recordings.

Written apart from the filter on purpose: it shares only the limits, none of the code that enforces them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.control.limits import SafetyLimits
from robot_stack.types.command import Decision, Mode
from robot_stack.types.pose import rotate_twist
from robot_stack.types.robot import RobotState

MOVING_MODES = (Mode.POLICY, Mode.HUMAN)
ZERO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTick:
    """One decision, and the state it was based on if that was logged too."""

    decision: Decision
    state: RobotState | None = None

    @property
    def stamp_ns(self) -> int:
        """When it was decided."""
        return self.decision.command.stamp_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule: which tick, which rule, and a sentence with the numbers."""

    index: int
    rule: str
    text: str


def check_log(ticks: Sequence[LoggedTick], limits: SafetyLimits, *, slack: float = 1e-3) -> list[Violation]:
    """Every violation in a log of one arm, in time order.

    Args:
        ticks: In the order they were decided.
        limits: What the arm was allowed.
        slack: Share by which a number may exceed its limit, and metres by which a position may.
    """
    rules: tuple[Callable[[Sequence[LoggedTick], SafetyLimits, float], Iterator[Violation]], ...] = (
        _speed,
        _acceleration,
        _workspace,
        _standstill,
    )
    broken = list(_finite(ticks))
    if not broken:
        broken = [violation for rule in rules for violation in rule(ticks, limits, slack)]
    return sorted(broken, key=lambda violation: violation.index)


def check_stopped(ticks: Sequence[LoggedTick], fault_ns: int, bound_s: float) -> list[Violation]:
    """Violations of "zero within `bound_s` after the fault at `fault_ns`, and until the end of the log"."""
    due_ns = fault_ns + int(bound_s * 1e9)
    return [
        Violation(index=index, rule="stopped", text=f"moves {(tick.stamp_ns - fault_ns) / 1e6:.0f} ms after the fault")
        for index, tick in enumerate(ticks)
        if tick.stamp_ns > due_ns and float(np.abs(tick.decision.command.twist).max()) > ZERO
    ]


def _finite(ticks: Sequence[LoggedTick]) -> Iterator[Violation]:
    for index, tick in enumerate(ticks):
        twist = tick.decision.command.twist
        if twist.shape != (6,) or not np.isfinite(twist).all():
            yield Violation(index=index, rule="finite", text=f"twist is {twist}, must be finite of shape (6,)")


def _speed(ticks: Sequence[LoggedTick], limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    for index, tick in enumerate(ticks):
        for name, speed, largest in _norms(tick.decision.command.twist, limits):
            if speed > largest * (1.0 + slack):
                yield Violation(index=index, rule=name, text=f"{name} is {speed:.4f}, must be at most {largest}")


def _acceleration(ticks: Sequence[LoggedTick], limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Taking the push out at the hard force is exempt: there the arm must let go at once."""
    for index in range(1, len(ticks)):
        before, after = ticks[index - 1], ticks[index]
        dt_s = (after.stamp_ns - before.stamp_ns) / 1e9
        if not 0.0 < dt_s <= limits.output_timeout_s or _hard_contact(after, limits):
            continue
        change = after.decision.command.twist - before.decision.command.twist
        largest = (limits.max_acceleration_m_s2, limits.max_rotation_acceleration_rad_s2)
        for name, part, rate in zip(("acceleration", "rotation_acceleration"), (change[:3], change[3:]), largest):
            size = float(np.linalg.norm(part)) / dt_s
            if size > rate * (1.0 + slack):
                yield Violation(index=index, rule=name, text=f"{name} is {size:.3f}, must be at most {rate}")


def _workspace(ticks: Sequence[LoggedTick], limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Towards a wall the arm can still stop before it, or is braking with at least a tenth of what it has."""
    low, high = np.array(limits.box_min_m), np.array(limits.box_max_m)
    before, before_ns = np.zeros(3), 0
    for index, tick in enumerate(ticks):
        if tick.state is None:
            continue
        velocity = rotate_twist(tick.decision.command.twist, tick.state.T_base_tcp.rotation)[:3]
        position = tick.state.T_base_tcp.position_m
        left = np.where(velocity > 0, high - position, position - low) + slack
        stoppable = np.sqrt(2.0 * limits.max_acceleration_m_s2 * np.maximum(left, 0.0)) + ZERO
        braked = 0.1 * limits.max_acceleration_m_s2 * min((tick.stamp_ns - before_ns) / 1e9, limits.output_timeout_s)
        slowing = np.abs(velocity) < np.abs(before) - braked
        for axis in np.flatnonzero((np.abs(velocity) > stoppable) & ~slowing):
            text = f"{velocity[axis]:.4f} m/s on {'xyz'[axis]} at {position[axis]:.4f} m, cannot stop before the wall"
            yield Violation(index=index, rule="workspace", text=text)
        before, before_ns = velocity, tick.stamp_ns


def _standstill(ticks: Sequence[LoggedTick], limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """No motion outside POLICY and HUMAN once the brakes had their time; a HOLD may retract if configured."""
    ramp_s = max(
        limits.max_speed_m_s / limits.max_acceleration_m_s2,
        limits.max_rotation_speed_rad_s / limits.max_rotation_acceleration_rad_s2,
    )
    due_ns = math.ceil((ramp_s + 0.03) * (1.0 + slack) * 1e9)
    since_ns: int | None = None
    for index, tick in enumerate(ticks):
        mode = tick.decision.mode
        if mode in MOVING_MODES:
            since_ns = None
            continue
        since_ns = tick.stamp_ns if since_ns is None else since_ns
        moving = float(np.abs(tick.decision.command.twist).max()) > ZERO
        retracting = mode is Mode.HOLD and limits.retract_m_s > 0.0
        if moving and not retracting and tick.stamp_ns - since_ns > due_ns:
            late_ms = (tick.stamp_ns - since_ns) / 1e6
            yield Violation(index=index, rule="standstill", text=f"moves {late_ms:.0f} ms into {mode}")


def _norms(twist: np.ndarray, limits: SafetyLimits) -> tuple[tuple[str, float, float], ...]:
    return (
        ("speed", float(np.linalg.norm(twist[:3])), limits.max_speed_m_s),
        ("rotation_speed", float(np.linalg.norm(twist[3:])), limits.max_rotation_speed_rad_s),
    )


def _hard_contact(tick: LoggedTick, limits: SafetyLimits) -> bool:
    return tick.state is not None and float(np.linalg.norm(tick.state.wrench[:3])) >= limits.hard_force_n
