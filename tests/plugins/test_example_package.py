"""A package with one part of each kind, installed by pip, adds them without an edit in robot-stack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = Path(__file__).parent / "example"
PARTS = ("robot", "camera", "device", "encoder", "algorithm", "live_reward", "reward", "task")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the installed package in `folder` on its path."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(EXAMPLE, folder / "source")  # a build writes beside what it builds
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True, timeout=300)
    return folder / "site"


@pytest.fixture(scope="module")
def said(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    done = run(installed, "-m", "tests.plugins.use_parts", str(tmp_path_factory.mktemp("files")))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(PARTS)
    return found


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_an_installed_part_does_its_work(said: dict[str, str], part: str) -> None:
    assert not said[part], said[part]


@pytest.mark.long
def test_names_are_listed_without_importing_the_package_or_torch(installed: Path) -> None:
    code = (
        "import sys\n"
        "from robot_stack.plugins import KINDS\n"
        "names = {name for kind in KINDS for name in kind.names}\n"
        "assert {'example_arm', 'example_noise', 'example_dial', 'example_colours', 'example_linear',"
        " 'example_nearest', 'example_brightness', 'example_insert', 'rlpd', 'progress'} <= names, names\n"
        "assert not {'stack_example', 'torch', 'rclpy', 'mujoco'} & set(sys.modules)\n"
    )
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_cell_of_installed_hardware_is_checked_without_torch_and_ros(installed: Path) -> None:
    code = (
        "import sys\n"
        "from robot_stack.config.resolve import load_run\n"
        "load_run('example_cell')\n"
        "assert not {'torch', 'rclpy', 'mujoco'} & set(sys.modules), 'loaded'\n"
    )
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_page_shows_the_package_as_it_is_tested() -> None:
    page = (ROOT / "docs" / "adding.md").read_text()
    for path in (EXAMPLE / "pyproject.toml", *sorted((EXAMPLE / "stack_example").glob("*.py"))):
        if path.name == "__init__.py":
            continue
        shown = re.search(rf"`{re.escape(path.name)}`[^`]*\n\n```\w+\n(.*?)```", page, re.S)
        assert shown, f"{path.name} is not shown"
        assert shown.group(1) == path.read_text(), path.name
