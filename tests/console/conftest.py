"""Shared by the tests of the operator's console."""

from __future__ import annotations

import pytest

from tests.console.page_rig import FakeCell, sim_run


@pytest.fixture(scope="session")
def run():
    """The dry run."""
    return sim_run()


@pytest.fixture
def cell(run, tmp_path) -> FakeCell:
    """A desk that is told what the test says."""
    return FakeCell(run, tmp_path)
