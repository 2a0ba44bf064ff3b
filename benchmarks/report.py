"""What the report of a run of 250 episodes costs: seconds from the command to its end, and the page's size.

Run: python -m benchmarks.report [--quick]

The run is synthetic, with all episodes in its store, each scored by a reward model. Each report is made by
`robot-stack report` in a process of its own; the median of three is told, beside the imports that are in it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from robot_stack.runs.paths import RunPaths
from tests.report.fake_run import write_run

EPISODES, QUICK_EPISODES = 250, 20
REPEATS = 3
COMMAND = (sys.executable, "-m", "robot_stack.cli.main", "report")
IMPORTS = (sys.executable, "-c", "import robot_stack.report.html")


def _seconds(command: tuple[str, ...]) -> float:
    began_s = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began_s


def measure(quick: bool) -> dict[str, float]:
    """Seconds of a report and of its imports, and megabytes of the page."""
    episodes, repeats = (QUICK_EPISODES, 1) if quick else (EPISODES, REPEATS)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "peg"
        write_run(run, demos=6, online=episodes, stored=episodes)
        seconds = [_seconds((*COMMAND, str(run))) for _ in range(repeats)]
        size_mb = RunPaths(run).report.stat().st_size / 1e6
    return {
        "report_s": statistics.median(seconds),
        "report_imports_s": statistics.median(_seconds(IMPORTS) for _ in range(repeats)),
        "report_mb": size_mb,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(measure(parser.parse_args().quick))
