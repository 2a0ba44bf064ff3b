"""A MUJOCO_GL that names nothing, or nothing that is installed, is said in words, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["nothing", "disable"])
def test_a_gl_that_draws_nothing_is_refused_before_a_run_has_a_folder(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "MUJOCO_GL": name, "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-m", "robot_stack.cli.main", "sim", "--name", "mine"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert f"no OpenGL for rendering with MUJOCO_GL={name} (" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []
