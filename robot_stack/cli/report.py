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
    from robot_stack.report.plots import write_plots
    from robot_stack.report.summary import write_summary

    summary = write_summary(folder)
    write_plots(folder)
    write_report(folder)
    if as_json:
        print(json.dumps(summary))
        return 0
    print(f"Report: {folder / 'report.html'}")
    print(f"Next: open it, or robot-stack eval {name} --episodes 20")
    return 0
