"""A finished synthetic run, written once; tests that change it copy it first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from robot_stack.report.html import write_report
from tests.report.fake_run import write_run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "peg"
    write_run(folder, online=30, stored=2)
    return folder


@pytest.fixture(scope="session")
def reported_run(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with its report and all its plots, to be looked at alone."""
    folder = Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("reported") / "peg"))
    write_report(folder)
    return folder


@pytest.fixture
def own_run(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "peg"))
