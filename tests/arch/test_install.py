"""What the Makefile installs: a dry run needs no tools of development; torch comes from where its user says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.arch.source_tree import ROOT

CPU = "https://index.example/cpu"
ON_LINUX = "#!/bin/sh\necho Linux\n"
RECORDS = """#!/bin/sh
echo "$@" >> "$PIP_LOG"
case "$*" in *"$REFUSED"*) exit 1 ;; *"config list") echo "$PIP_SETTINGS" ;; esac
"""
MIRROR = "global.index-url='https://mirror.example/simple'"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A virtual environment whose pip only writes down what it is asked for, and refuses what REFUSED says."""
    for name, text in {
        "venv/bin/python": RECORDS,
        "venv/bin/uv": RECORDS,
        "bin/uname": ON_LINUX,
        "bin/nvidia-smi": "#!/bin/sh\nexit 9\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    return tmp_path


def make(
    machine: Path, stamp: str, *options: str, refused: str = "nothing", settings: str = "global.timeout='180'"
) -> tuple[list[str], str]:
    """Make a stamp; return what pip and uv were asked to install, and what was printed."""
    log = machine / "pip.log"
    environment = {
        "PATH": f"{machine / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_LOG": str(log), "REFUSED": refused,
        "PIP_SETTINGS": settings,
    }  # fmt: skip
    venv = machine / "venv"
    command = ["make", f"VENV={venv}", *options, str(venv / stamp)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return [line for line in log.read_text().splitlines() if "config list" not in line], done.stdout


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def test_the_dry_run_has_no_tools_of_development(machine: Path) -> None:
    *_, last = make(machine, ".sim")[0]
    assert "-e .[ros,dry-run] -c constraints.txt" in last


def test_the_tests_have_them_on_top_of_it(machine: Path) -> None:
    *_, before, last = make(machine, ".installed")[0]
    assert "[ros,dry-run]" in before
    assert "-e .[dev] -c constraints.txt" in last


def test_without_ros_wheels_the_rest_is_installed_and_it_is_said(machine: Path) -> None:
    asked, said = make(machine, ".sim", refused="ros-rclpy")
    assert "-e .[dry-run]" in asked[-1]
    assert "ros extra is left out" in said


def test_without_a_gpu_torch_is_the_build_for_the_cpu(machine: Path) -> None:
    (tool, asked), said = make(machine, ".torch")
    assert tool == "-m pip install --quiet -c constraints.txt uv"
    assert asked.startswith("pip install --quiet --python ")
    assert "--torch-backend cpu torch==" in asked
    assert "torch==" in said
    assert "for the CPU, 200 MB" in said


def test_where_the_builds_for_the_cpu_cannot_be_reached_pip_is_asked(machine: Path) -> None:
    (*_, asked), said = make(machine, ".torch", refused="torch-backend")
    assert asked.startswith("-m pip install --quiet torch==")
    assert "cannot be reached" in said


@pytest.mark.parametrize("settings", [MIRROR, ":env:.find-links='/opt/wheels'", "global.no-index='1'"])
def test_a_pip_that_is_told_where_to_look_is_asked_and_it_is_said_what_else_there_is(
    machine: Path, settings: str
) -> None:
    (asked,), said = make(machine, ".torch", settings=settings)
    assert asked.startswith("-m pip install --quiet torch==")
    assert "no NVIDIA GPU here" in said
    assert "TORCH_INDEX=" in said


def test_torch_comes_from_the_index_that_is_named(machine: Path) -> None:
    (asked,), said = make(machine, ".torch", f"TORCH_INDEX={CPU}")
    assert f"--no-deps --index-url {CPU} torch==" in asked
    assert CPU in said
    assert "no NVIDIA GPU" not in said


def test_with_a_gpu_nothing_is_said_of_other_builds(machine: Path) -> None:
    (machine / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit 0\n")
    (asked,), said = make(machine, ".torch")
    assert asked.startswith("-m pip install --quiet torch==")
    assert "no NVIDIA GPU" not in said


def test_each_step_is_a_line_and_the_size_is_told(machine: Path) -> None:
    said = make(machine, ".sim")[1].splitlines()
    assert [line[:6] for line in said[:-1] if " of 3:" in line] == ["1 of 3", "2 of 3", "3 of 3"]
    assert " MB in " in said[-1]
