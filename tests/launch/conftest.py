"""A copy of the sources, and the wheel that pip makes of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("robot_stack", "policies", "reward_models", "sim")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the sources: building leaves files beside them."""
    copy = tmp_path_factory.mktemp("source") / "robot_stack"
    copy.mkdir()
    for folder in (*PACKAGES, "launch", "ros", "hardware_configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "package.xml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    return copy


@pytest.fixture(scope="module")
def prefix(source, tmp_path_factory) -> Path:
    """Where pip has put the wheel of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*command, source], check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--prefix", folder / "prefix"]
    subprocess.run([*install, "--ignore-installed", wheel], check=True, capture_output=True)
    return folder / "prefix"
