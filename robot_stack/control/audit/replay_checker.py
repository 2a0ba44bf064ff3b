"""Checks that prove from a log alone that what reached the robot was safe: the oracle of fault tests and recordings.

Written apart from the filter on purpose: it shares only the limits, none of the code that enforces them. What it does
not judge: jerk, because a log does not say where the filter braked and so left that limit out on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.control.audit.logged import LogArrays, LoggedTick
from robot_stack.control.audit.replay_links import apart
from robot_stack.control.audit.replay_rules import RULES, ZERO, Violation, finite
from robot_stack.control.safety.limits import SafetyLimits

__all__ = [
    "AppliedTwist",
    "LoggedTick",
    "Violation",
    "check_apart",
    "check_applied",
    "check_log",
    "check_stopped",
    "safe_after_s",
]

CLOCK_NS = 1_000_000
"""Two processes on one clock: a message is never applied before it was made, up to this."""
MISSED_PERIODS = 1.5
"""A longer gap between two decisions is one that the log, or the safety process, lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTwist:
    """A twist that the robot process gave to the motors at an instant: shape (6,), m/s and rad/s, tcp frame."""

    stamp_ns: int
    twist: np.ndarray


def check_log(ticks: Sequence[LoggedTick], limits: SafetyLimits, *, slack: float = 1e-3) -> list[Violation]:
    """Return every violation in a log of one arm, in time order.

    Args:
        ticks: In the order they were decided.
        limits: What the arm was allowed.
        slack: Share by which a number may exceed its limit, and metres by which a position may.
    """
    broken = list(finite(ticks))
    if not broken and ticks:
        log = LogArrays.of(ticks)
        broken = [violation for rule in RULES for violation in rule(log, limits, slack)]
    return sorted(broken, key=lambda violation: violation.index)


def check_apart(
    ticks: Sequence[LoggedTick],
    limits: SafetyLimits,
    others: Sequence[LoggedTick],
    other_limits: SafetyLimits,
    *,
    slack: float = 1e-3,
) -> list[Violation]:
    """Return a violation of one arm's log for each time at which it came inside the margin of another arm.

    Args:
        ticks: Of the arm, in the order they were decided.
        limits: What it was allowed.
        others: Of another arm of the cell, on the same clock.
        other_limits: What that was allowed.
        slack: In metres.
    """
    if not ticks or not others or any(finite(ticks)) or any(finite(others)):
        return []
    near = apart(LogArrays.of(ticks), limits, LogArrays.of(others), other_limits, slack)
    return [Violation(index=index, stamp_ns=ticks[index].stamp_ns, rule="clearance", text=text) for index, text in near]


def check_stopped(ticks: Sequence[LoggedTick], fault_ns: int, bound_s: float) -> list[Violation]:
    """Return the violations of "zero within `bound_s` after the fault at `fault_ns`, and until the end of the log"."""
    due_ns = fault_ns + int(bound_s * 1e9)
    return [
        Violation(
            index=index,
            stamp_ns=tick.stamp_ns,
            rule="stopped",
            text=f"moves {(tick.stamp_ns - fault_ns) / 1e6:.0f} ms after the fault",
        )
        for index, tick in enumerate(ticks)
        if tick.stamp_ns > due_ns and float(np.abs(tick.decision.command.twist).max()) > ZERO
    ]


def check_applied(
    applied: Sequence[AppliedTwist], ticks: Sequence[LoggedTick], limits: SafetyLimits, *, slack: float = 1e-6
) -> list[Violation]:
    """Return a violation for each moving twist that the motors got and that was not decided just before.

    Just before is no longer ago than the robot's own watchdog allows.

    Where decisions are missing from the log, only a twist that was decided before the gap proves anything: it is stale.

    Args:
        applied: By the robot process.
        ticks: By the safety process, in time order; together with `applied` they prove that labels are what was
            executed.
        limits: What the arm was allowed.
        slack: In m/s and rad/s; labels are float32 on the wire.
    """
    stamps = np.array([tick.stamp_ns for tick in ticks], dtype=np.int64)
    twists = np.array([tick.decision.command.twist for tick in ticks]).reshape(-1, 6)
    oldest_ns = round(limits.output_timeout_s * 1e9)
    missed_ns = MISSED_PERIODS * float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
    broken = []
    for index, each in enumerate(applied):
        if float(np.abs(each.twist).max()) <= ZERO:
            continue
        if len(stamps) and not stamps[0] + oldest_ns <= each.stamp_ns <= stamps[-1]:
            continue  # may have been decided before the log begins, or after it ends
        first, last = np.searchsorted(stamps, [each.stamp_ns - oldest_ns - CLOCK_NS, each.stamp_ns + CLOCK_NS])
        if (np.abs(twists[first:last] - each.twist) <= slack).all(axis=1).any():
            continue
        before = max(0, int(first) - 1)
        missing = bool((np.diff(stamps[before : last + 1]) > missed_ns).any())
        stale = bool((np.abs(twists[before] - each.twist) <= slack).all()) if len(twists) else False
        if stale or not missing:
            text = f"motors got {np.round(each.twist, 4)}, which was not decided in the {oldest_ns / 1e6:.0f} ms before"
            broken.append(Violation(index=index, stamp_ns=each.stamp_ns, rule="applied", text=text))
    return broken


def safe_after_s(ticks: Sequence[LoggedTick], fault_ns: int) -> float:
    """Return the seconds from the fault to the first of the zero commands that last to the end of the log.

    They are infinite if there is none.
    """
    safe_ns: int | None = None
    for tick in ticks:
        if tick.stamp_ns < fault_ns:
            continue
        if float(np.abs(tick.decision.command.twist).max()) > ZERO:
            safe_ns = None
        elif safe_ns is None:
            safe_ns = tick.stamp_ns
    return float("inf") if safe_ns is None else (safe_ns - fault_ns) / 1e9
