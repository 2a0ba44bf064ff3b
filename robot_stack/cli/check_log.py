"""`robot-stack check-log FILE`: proves a recorded log of commands against the limits that were in force."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np

from robot_stack.control.audit.replay_checker import Violation, check_applied, check_log
from robot_stack.workcell.command_log import RecordedLog, read_log

SHOWN = 20
LATE_PERIODS = 2.0


def run(file: Path, as_json: bool = False) -> int:
    """Check a recorded log and print what was found; returns 0 if nothing was broken, else 1.

    Raises:
        StoreError: If the file is no command log.
    """
    log = read_log(file)
    broken = violations(log)
    if as_json:
        rules = Counter(violation.rule for violation in broken)
        print(json.dumps({**figures(log), "violations": len(broken), "rules": rules}))
        return int(bool(broken))
    for name, value in figures(log).items():
        print(f"{name.replace('_', ' ')}: {value}")
    start_ns = log.decisions[0].command.stamp_ns if log.decisions else 0
    for violation in broken[:SHOWN]:
        print(f"{(violation.stamp_ns - start_ns) / 1e9:9.3f} s  {violation.rule}: {violation.text}")
    if len(broken) > SHOWN:
        print(f"and {len(broken) - SHOWN} more")
    print(f"violations: {len(broken)}")
    return int(bool(broken))


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
