"""What commands that touch no robot do without when they start."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from robot_stack.config.resolve import load_run
import robot_stack.report.html
[load_run(name) for name in ("ur5e_table", "two_arm_insert")]
print([name for name in ("scipy", "torch", "mujoco", "rclpy") if name in sys.modules])
"""


@pytest.mark.long
def test_a_run_is_read_and_reported_without_what_only_robots_and_learners_need() -> None:
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
