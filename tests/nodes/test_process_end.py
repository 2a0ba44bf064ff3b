"""A node process is gone soon after its end was asked for, whatever its libraries do while it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.processes.prepared_run import prepared
from robot_stack.runs.paths import RunPaths
from tests.nodes.cell_rig import START_S, wait_until

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.nodes.base import LEAVE_S

DOMAIN = 78
STUCK_S = 120
CODE = f"""
import atexit, sys, time
from robot_stack.nodes.base import StackNode, run_node
atexit.register(time.sleep, {STUCK_S})
def build(settings):
    print("built", flush=True)
    return StackNode("idle", settings.namespace, key=settings.key)
sys.exit(run_node("idle", build, argv=["--run", sys.argv[1]]))
"""


def test_a_process_that_cannot_end_is_ended(tmp_path: Path):
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready, (tmp_path / "said").open("w+") as said:
        words = [sys.executable, "-c", CODE, str(RunPaths(tmp_path).resolved)]
        with subprocess.Popen(words, env=ready.environment, stdout=said, stderr=subprocess.STDOUT) as process:
            try:
                wait_until(lambda: "built" in (tmp_path / "said").read_text(), START_S, "a node")
                process.terminate()
                assert process.wait(LEAVE_S + START_S) == -signal.SIGALRM
            finally:
                process.kill()
