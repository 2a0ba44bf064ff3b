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
CODE = """
import atexit, sys, threading, time
from robot_stack.nodes.base import StackNode, run_node
__name__ = "robot_stack.of_the_test"
def work():
    raise ValueError("nobody foresaw this")
def build(settings):
    {first}
    print("built", flush=True)
    return StackNode("idle", settings.namespace, key=settings.key)
sys.exit(run_node("idle", build, argv=["--run", sys.argv[1]]))
"""


def test_a_node_of_which_a_thread_fails_ends_and_says_why(tmp_path: Path):
    code = CODE.format(first="threading.Thread(target=work, daemon=True).start()")
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready:
        words = [sys.executable, "-c", code, str(RunPaths(tmp_path).resolved)]
        ended = subprocess.run(
            words, env=ready.environment, capture_output=True, text=True, timeout=2 * START_S, check=False
        )
    assert ended.returncode == 1, ended.stderr
    assert "idle: nobody foresaw this" in ended.stderr


def test_a_process_that_cannot_end_is_ended(tmp_path: Path):
    code = CODE.format(first=f"atexit.register(time.sleep, {STUCK_S})")
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready, (tmp_path / "said").open("w+") as said:
        words = [sys.executable, "-c", code, str(RunPaths(tmp_path).resolved)]
        with subprocess.Popen(words, env=ready.environment, stdout=said, stderr=subprocess.STDOUT) as process:
            try:
                wait_until(lambda: "built" in (tmp_path / "said").read_text(), START_S, "a node")
                process.terminate()
                assert process.wait(LEAVE_S + START_S) == -signal.SIGALRM
            finally:
                process.kill()
