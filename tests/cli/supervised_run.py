"""A command that supervises three processes, each of which writes its name into `order` when it is told to end.

python -m tests.cli.supervised_run FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from robot_stack.cli import main, up
from robot_stack.cli.supervise import supervise
from robot_stack.config.resolve import load_run
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.table import ProcessSpec

FOLDER = Path(sys.argv[-1])
NAMES = ("robot", "learner", "actor")
LONGEST_S = 60
CHILD = """
import pathlib, signal, sys, time
folder, name, longest_s = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def end(*_):
    with (folder / "order").open("a") as order:
        print(name, file=order)
    raise SystemExit
signal.signal(signal.SIGTERM, end)
(folder / name).touch()
time.sleep(longest_s)
"""


def row(name: str) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        argv=(sys.executable, "-c", CHILD, str(FOLDER), name, str(LONGEST_S)),
        required=True,
        grace_s=10.0,
        stop_first=name == "actor",
        stop_last=name == "robot",
    )


def run(**_: object) -> int:
    resolved = load_run("peg_insert")
    ready = PreparedRun(folder=FOLDER, domain=resolved.cell.dds_domain, environment=dict(os.environ))
    return supervise(resolved, ready, [row(name) for name in NAMES], store=None, onward=lambda code: "go on")


if __name__ == "__main__":
    up.run = run  # type: ignore[assignment]
    sys.argv[1:] = ["up", "peg_insert"]
    (FOLDER / "code").write_text(str(main.main()))
