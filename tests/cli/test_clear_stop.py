"""`robot-stack clear-stop`: an operator at a terminal ends the STOP of a real safety process, and nobody else does."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.cli.cell import clear_stop
from robot_stack.cli.cell.own_cell import own_cell
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.nodes.tools.listening import listening
from robot_stack.nodes.tools.safety_requests import SafetyRequests
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes, namespace_of
from robot_stack.runs.paths import RunPaths

COMMAND = [sys.executable, "-m", "robot_stack.cli.main", "clear-stop"]
RUN = load_run("peg_insert", ["cell.dds_domain=71"])
START_S, ENDS_S = 60.0, 60.0


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run whose robot and safety process are going on."""
    folder = tmp_path_factory.mktemp("stopped") / "monday"
    with prepared(RUN, folder) as ready:
        table = [row for row in cell_processes(RUN, folder) if row.name in ("robot", "safety")]
        with Supervisor(table, environment=ready.environment, log_folder=ready.log_folder):
            yield folder


def stopped(folder: Path) -> bool:
    """Stop the cell by its service; return whether it did."""
    with own_cell(RUN, folder, running=True), listening(lambda: SafetyRequests(namespace_of(RUN), ("stop",))) as here:
        return here.listen(START_S, here.node.there) and here.node.ask(here, "stop")[0]


def kept(folder: Path) -> str:
    """Return what the file says that outlives the run."""
    return str(json.loads((folder / "safety/stop.json").read_text())["state"])


def answered(folder: Path, word: str) -> tuple[int, str]:
    """Run the command on a terminal at which somebody types a word; return its exit code and all that is on it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*COMMAND, str(folder)], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        said = read_until(ours, b"leaves it:")
        os.write(ours, f"{word}\n".encode())
        code = process.wait(ENDS_S)
        said += read_until(ours, None)
    finally:
        process.kill()
        os.close(ours)
    return code, said.decode()


def read_until(terminal: int, text: bytes | None) -> bytes:
    """Read a terminal until a text is on it, or, without one, until whoever wrote there has ended."""
    said, deadline = b"", time.monotonic() + ENDS_S
    while (text is None or text not in said) and time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            said += os.read(terminal, 4096)
        except OSError:  # its last writer has ended
            break
    return said


def test_the_operators_word_ends_a_stop_and_another_leaves_it(cell: Path) -> None:
    assert stopped(cell)
    assert kept(cell) == "stop"
    code, said = answered(cell, "yes")
    assert (code, kept(cell)) == (1, "stop")
    assert "The STOP stays." in said
    code, said = answered(cell, "clear")
    assert (code, kept(cell)) == (0, "no stop")
    assert "The STOP is over. Next: arm the cell" in said


def test_without_a_stop_it_says_what_the_cell_is_in(cell: Path) -> None:
    code, said = answered(cell, "clear")
    assert code == 1
    assert "The STOP stays: mode is DISARMED, must be STOP" in said


def test_nobody_is_asked_where_there_is_no_terminal(cell: Path) -> None:
    ended = subprocess.run([*COMMAND, str(cell)], input="clear\n", capture_output=True, text=True, timeout=ENDS_S)
    assert ended.returncode == 1
    assert "standard input is no terminal" in ended.stderr


def test_a_cell_that_is_not_running_is_said_to_be(cell: Path, monkeypatch, tmp_path, capsys) -> None:
    folder = tmp_path / "ended"
    RunPaths(folder).log.mkdir(parents=True)
    other = load_run("peg_insert", ["cell.dds_domain=88"])
    with prepared(other, folder):
        pass
    monkeypatch.setattr(clear_stop, "ANSWERS_S", 1.0)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["clear-stop", str(folder)]) == 1
    assert "is not there, must run to end a STOP; start the run" in capsys.readouterr().err
