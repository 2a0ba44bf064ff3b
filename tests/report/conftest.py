"""A finished synthetic run, written once; tests that change it copy it first."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_stack.report.write import write_report
from tests.chromium import CHROMIUM, QUIET
from tests.report.fake_run import write_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


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
