"""Makers of findings, and the table of findings that an operator reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from robot_stack.types.finding import Finding, Level


def ok(check: str, text: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(level=Level.OK, check=check, text=text)


def warn(check: str, text: str) -> Finding:
    """Return a warning: it works, but an operator should know."""
    return Finding(level=Level.WARN, check=check, text=text)


def fail(check: str, text: str) -> Finding:
    """Return a failure, to be mended before the cell is used."""
    return Finding(level=Level.FAIL, check=check, text=text)


def table(findings: Sequence[Finding]) -> str:
    """Format findings as a table, one line each, in columns."""
    width = max(len(finding.check) for finding in findings)
    return "\n".join(f"{each.level:<4}  {each.check:<{width}}  {each.text}" for each in findings)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return the exit code of a command: 1 if a finding is a failure, else 0."""
    return int(any(finding.level is Level.FAIL for finding in findings))


def closing(findings: Sequence[Finding], again: str, onward: str) -> str:
    """Return the last line: how many failed, and the next command.

    Args:
        findings: All of them.
        again: This very command.
        onward: What to do once nothing fails.
    """
    counts = Counter(finding.level for finding in findings)
    parts = [f"{counts[Level.FAIL]} failed"] if counts[Level.FAIL] else []
    warnings = counts[Level.WARN]
    parts += [f"{warnings} warning{'s' if warnings > 1 else ''}"] if warnings else []
    summary = ", ".join(parts) or "all is well"
    next_step = f"mend what FAIL names, then {again}" if counts[Level.FAIL] else onward
    return f"{summary}. Next: {next_step}"


def plain(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Convert findings to plain values, for scripts."""
    return [asdict(finding) for finding in findings]
