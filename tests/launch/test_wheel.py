"""The dry run from a wheel. It has the machine to itself: its learner gives way to whatever else runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.cli.main import INTERRUPTED
from robot_stack.console.access import ADDRESS_FILE
from tests.flow.flow_rig import stored, wait_for

pytest.importorskip("rclpy", reason="no ROS on this machine")

DOMAIN = 96


def test_the_dry_run_begins_in_an_empty_folder_from_the_wheel(prefix, tmp_path):
    """With no file of the checkout in reach: until the page can be opened and a demonstration is on disk."""
    packages = next(prefix.glob("lib/python*/site-packages"))
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    environment.pop("MAKELEVEL", None)
    where = [sys.executable, "-c", "import robot_stack; print(robot_stack.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert Path(found.stdout.strip()).is_relative_to(packages)
    named = ["--name", "first", "--set", f"cell.dds_domain={DOMAIN}"]
    # a shell that runs the tests in the background has them, and all they start, ignore Ctrl-C
    command = ["env", "--default-signal=INT", sys.executable, "-m", "robot_stack.cli.main", "sim", *named]
    output = tmp_path / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        folder = tmp_path / "runs/first"
        wait_for(lambda: (folder / ADDRESS_FILE).exists() and stored(folder), "a page and a demonstration")
        process.send_signal(signal.SIGINT)
        process.wait(60.0)
    finally:
        process.kill()
        said = output.read_text()
        print(said)
    assert process.returncode == INTERRUPTED
    assert "page: http://" in said
    assert f"Go on with: robot-stack sim {' '.join(named)}" in said
