"""`robot-stack check-log FILE...`: proves recorded logs of commands against the limits that were in force."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_stack.control.audit.replay_checker import Violation, check_apart, check_applied, check_log
from robot_stack.workcell.command_log import RecordedLog, read_log

SHOWN = 20
LATE_PERIODS = 2.0


def run(files: Sequence[Path], as_json: bool = False) -> int:
    """Check recorded logs, print what was found in each, and return 0 if nothing was broken, else 1.

    Logs of several arms of one run are also judged against each other.

    Raises:
        StoreError: If a file is no command log.
    """
    logs = [read_log(file) for file in files]
    broken = [_report(log, [other for other in logs if other.arm != log.arm], as_json) for log in logs]
    return int(any(broken))


def _report(log: RecordedLog, others: Sequence[RecordedLog], as_json: bool) -> bool:
    """Print what was found in a log, and return whether anything was broken."""
    broken = sorted([*violations(log), *meetings(log, others)], key=lambda violation: violation.stamp_ns)
    found = {**figures(log), **({"seconds_beside": beside(log, others)} if others else {})}
    if as_json:
        rules = Counter(violation.rule for violation in broken)
        print(json.dumps({**found, "violations": len(broken), "rules": rules}))
        return bool(broken)
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}: {value}")
    start_ns = log.decisions[0].command.stamp_ns if log.decisions else 0
    for violation in broken[:SHOWN]:
        print(f"{(violation.stamp_ns - start_ns) / 1e9:9.3f} s  {violation.rule}: {violation.text}")
    if len(broken) > SHOWN:
        print(f"and {len(broken) - SHOWN} more")
    print(f"violations: {len(broken)}")
    return bool(broken)


def meetings(log: RecordedLog, others: Sequence[RecordedLog]) -> list[Violation]:
    """Return a violation for each time at which the arm of a log came inside the margin of another arm."""
    ticks, limits = log.ticks(), log.limits[0][1]
    return [
        replace(violation, text=f"{log.arm} and {other.arm}: {violation.text}")
        for other in others
        for violation in check_apart(ticks, limits, other.ticks(), other.limits[0][1])
    ]


def beside(log: RecordedLog, others: Sequence[RecordedLog]) -> dict[str, float]:
    """Return other arm -> seconds that its logs have in common with this one: only of those anything is proven."""
    seconds: Counter[str] = Counter()
    for other in others:
        ends = [
            (each.decisions[0].command.stamp_ns, each.decisions[-1].command.stamp_ns) if each.decisions else (0, 0)
            for each in (log, other)
        ]
        seconds[other.arm] += max(0, min(last for _, last in ends) - max(first for first, _ in ends))
    return {arm: round(elapsed_ns / 1e9, 1) for arm, elapsed_ns in seconds.items()}


def violations(log: RecordedLog) -> list[Violation]:
    """Return all violations in a log, in time order."""
    broken = [violation for limits, ticks in log.spans() for violation in check_log(ticks, limits)]
    broken += check_applied(log.applied, log.ticks(), log.limits[0][1])
    return sorted(broken, key=lambda violation: violation.stamp_ns)


def figures(log: RecordedLog) -> dict[str, object]:
    """Return the figures of a log by name: counts, seconds, modes, and what was clamped."""
    stamps = np.array([decision.command.stamp_ns for decision in log.decisions], dtype=np.float64)
    gaps = np.diff(stamps)
    period_ns = float(np.median(gaps)) if len(gaps) else 0.0
    modes = Counter(str(decision.mode) for decision in log.decisions)
    cuts = Counter(name for decision in log.decisions for name in decision.clamped)
    return {
        "arm": log.arm,
        "decisions": len(log.decisions),
        "applied": len(log.applied),
        "states": len(log.states),
        "seconds": round(float(stamps[-1] - stamps[0]) / 1e9, 1) if len(stamps) else 0.0,
        "late_or_missing_decisions": int((gaps > LATE_PERIODS * period_ns).sum()),
        "modes": dict(modes),
        "clamped": dict(cuts),
        "cut_short": not log.whole,
    }
