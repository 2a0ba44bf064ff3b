"""`robot-stack report RUN [RUN ...]`: summary.json, plots and report.html of a run; of several, a page side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.run_folder import find_folder
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths


def run(names: Sequence[str], as_json: bool = False) -> int:
    """Write the report of each run from what it has recorded so far, and of several their comparison.

    Raises:
        StackError: If a folder holds no run, or too many are named.
    """
    folders = [find_folder(name) for name in names]

    from robot_stack.report.write import write_report

    comparison = _compare(folders) if len(folders) > 1 else None
    pages = [write_report(folder) for folder in folders]
    if as_json:
        summaries = [json.loads(RunPaths(folder).summary.read_text()) for folder in folders]
        print(json.dumps(summaries[0] if len(summaries) == 1 else dict(zip(names, summaries, strict=True))))
        return 0
    for page in pages:
        print(f"Report: {page}")
    if comparison is not None:
        print(f"Side by side: {comparison}")
    print(f"Next: open it, or {command_line('eval', names[0])}")
    return 0


def _compare(folders: Sequence[Path]) -> Path:
    from robot_stack.report.comparison import write_comparison

    return write_comparison(folders)
