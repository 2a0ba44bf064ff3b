"""`robot-stack report RUN`: summary.json, plots and report.html from what a run has recorded so far."""

from __future__ import annotations

import json

from robot_stack.cli.run_folder import find_folder


def run(name: str, as_json: bool = False) -> int:
    """Write the report; returns the exit code.

    Args:
        name: Folder of a run, or its name under runs/.
        as_json: Print the summary instead of where the report is.

    Raises:
        StackError: If the folder holds no run.
    """
    folder = find_folder(name)

    from robot_stack.report.html import write_report

    page = write_report(folder)
    if as_json:
        print(json.dumps(json.loads((folder / "summary.json").read_text())))
        return 0
    print(f"Report: {page}")
    print(f"Next: open it, or robot-stack eval {name} --episodes 20")
    return 0
