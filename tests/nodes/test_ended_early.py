"""A process of the actor's kind that is ended before a bring-up made it active, as Ctrl-C during the start does."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.control.safety.seal import WireKey
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import managed, namespace_of, session_process
from robot_stack.types.errors import RobotError
from tests.nodes.cell_rig import START_S, wait_until

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.signals import SignalHandlerOptions  # noqa: E402

from robot_stack.nodes.actor.cell import RosCell  # noqa: E402

DOMAIN = 93


def test_nothing_of_a_cell_goes_on_that_was_given_up_while_it_waited(tmp_path: Path, monkeypatch) -> None:
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready:
        for name, value in ready.environment.items():
            monkeypatch.setenv(name, value)
        cell = RosCell(
            run, namespace=namespace_of(run), key=WireKey.of_folder(tmp_path), managed=True, stopping=lambda: True
        )
        with pytest.raises(RobotError, match="before the bring-up"), cell:
            pass
    assert not [thread for thread in threading.enumerate() if thread.name == "ros"]
    assert not rclpy.ok()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_recorder_that_is_ended_while_it_waits_ends_without_an_abort(
    tmp_path: Path, monkeypatch, number: signal.Signals
) -> None:
    run = load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])
    with prepared(run, tmp_path) as ready:
        for name, value in ready.environment.items():
            monkeypatch.setenv(name, value)
        row, _ = managed([session_process("recorder", tmp_path, "--episodes", "3")], tmp_path)
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        stranger = rclpy.create_node("stranger")
        environment = {**ready.environment, **row.env, "PYTHONFAULTHANDLER": "1"}
        process = subprocess.Popen(row.argv, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: "actor" in stranger.get_node_names(), START_S, "the recorder's node")
            wait_until(lambda: catches(process.pid, signal.SIGTERM), START_S, "its handlers")
            process.send_signal(number)
            _, said = process.communicate(timeout=START_S)
        finally:
            process.kill()
            stranger.destroy_node()
            rclpy.try_shutdown()
    assert process.returncode in (0, 1), said
    assert "terminate called" not in said
    assert "before the bring-up" in said


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal: a node of that name that is another's is no sign of one.

    Python itself has one for SIGINT from its start; the recorder sets that for SIGTERM last.
    """
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)
