"""The report of a run, written: half of it is drawing, most of which a process of its own does on another core.

Nothing is imported here that takes long, so that it begins at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from robot_stack.disk.durable import disk_errors, write_durable
from robot_stack.types.errors import StoreError

if TYPE_CHECKING:
    from robot_stack.report.plots.run import Plot

ENDS_WITH_ITS_PARENT = (sys.executable, "-m", "robot_stack.processes.child", "--")
DRAWS = (*ENDS_WITH_ITS_PARENT, sys.executable, "-m", "robot_stack.report.plots.run")
APART = ("learning", "bc_vs_rl", "progress", "critic", "control")
"""The plots that it draws, so that it takes as long as all else."""

WRITING = "writing the report"


def write_report(folder: Path) -> Path:
    """Write summary.json, plots/ and report.html of the run in `folder`; returns the report's path.

    Raises:
        StoreError: If the folder does not exist or refuses a file, or the process that draws was killed.
        RuntimeError: If drawing failed otherwise, with its own words.
    """
    with disk_errors(WRITING), _drawing(folder, APART) as drawn_apart:
        from robot_stack.report.html import render_report
        from robot_stack.report.plots.run import NAMES, draw_plots, plots_of
        from robot_stack.report.run_folder import read_run
        from robot_stack.report.summary import write_summary

        record = read_run(folder)
        summary = write_summary(record)

        def plots() -> list[Plot]:
            here = draw_plots(record, names=set(NAMES) - set(APART))
            return plots_of(record.paths, [*here, *drawn_apart()])

        write_durable(record.paths.report, render_report(record, summary, plots))
        return record.paths.report


@contextmanager
def _drawing(folder: Path, names: Sequence[str]) -> Iterator[Callable[[], list[str]]]:
    """Let a process draw plots while the body runs; yields what waits for it and returns the names of those drawn."""
    with subprocess.Popen(
        (*DRAWS, str(folder), *names),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        try:
            yield lambda: _drawn(process)
        finally:
            process.kill()  # of no consequence where it has ended


def _drawn(process: subprocess.Popen[str]) -> list[str]:
    said, words = process.communicate()
    if process.returncode < 0:
        raise StoreError(
            f"process that draws the plots was ended by signal {-process.returncode}, must end by itself; is the "
            "memory short? write the report again with robot-stack report"
        )
    if process.returncode:
        raise RuntimeError(f"process that draws the plots ended with {process.returncode}, must end with 0:\n{words}")
    sys.stderr.write(words)  # what matplotlib warns of
    answer = json.loads(said)
    if "failed" in answer:
        raise StoreError(answer["failed"])
    names: list[str] = answer["drawn"]
    return names
