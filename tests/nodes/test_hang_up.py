"""A terminal that closes ends whoever it started in order, also without the command that ends them one by one."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.config.resolve import load_run
from robot_stack.nodes.tools.bring_up import BringUpNode
from robot_stack.processes.prepared_run import prepared
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import MISCONFIGURED
from tests.nodes.cell_rig import START_S

DOMAIN = 65
BEGIN = """
import os, signal, sys
from robot_stack.types.errors import ConfigError
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
def hang_up(*_):
    os.kill(os.getpid(), signal.SIGHUP)
def refuse(*_):
    hang_up()
    raise ConfigError("it is gone")
"""
NODE = """
from robot_stack.nodes.base import StackNode, run_node
class Node(StackNode):
    def retire(self, reason):
        print(f"retired by {reason}", flush=True)
        super().retire(reason)
def build(settings):
    hang_up()
    return Node("idle", settings.namespace, key=settings.key)
sys.exit(run_node("idle", build, argv=["--run", sys.argv[1]]))
"""
SESSION = """
from robot_stack.nodes.actor import session
session.load_resolved = refuse
sys.exit(session.run_session("recorder", lambda _: 1, lambda _: None, ["--run", "run.yaml"]))
"""
LEARNER = """
from robot_stack.learner import process
process.load_resolved = refuse
sys.exit(process.main(["--run", "run.yaml"]))
"""
ACTOR = """
from robot_stack.rollout.actor_process import run_until_stopped
def work(stop):
    hang_up()
    return "it was told" if stop.is_set() else ""
sys.exit(run_until_stopped(work))
"""


def ended(code: str, *words: str, **fields) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + code, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * START_S, check=False, **fields)


def test_a_node_retires(tmp_path: Path) -> None:
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready:
        done = ended(NODE, str(RunPaths(tmp_path).resolved), env=ready.environment)
    assert (done.returncode, done.stdout) == (0, "retired by SIGHUP\n"), done.stderr


@pytest.mark.parametrize(("code", "exit_code"), [(SESSION, 0), (LEARNER, MISCONFIGURED), (ACTOR, 0)])
def test_who_runs_episodes_and_who_learns_from_them_come_to_their_end(code: str, exit_code: int) -> None:
    done = ended(code)
    assert done.returncode == exit_code, done.stderr
    assert "it " in done.stderr


class Closed(io.StringIO):
    """The stderr of a terminal that has closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_cell_is_brought_up_when_nobody_hears_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    plan = SimpleNamespace(next=lambda now_s: None, words=lambda: ["all 7 nodes are active"], status=lambda: "active")
    node = SimpleNamespace(_plan=plan, _said="", _cell_status=SimpleNamespace(say=told.append))
    monkeypatch.setattr(sys, "stderr", Closed())
    BringUpNode._on_tick(node)
    assert told == ["active"]
