"""Shared by the tests of the operator's console."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from page_rig import FakeCell, sim_run

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "transport"), str(TESTS / "faults")]


@pytest.fixture(scope="session")
def run():
    """The dry run."""
    return sim_run()


@pytest.fixture
def cell(run, tmp_path) -> FakeCell:
    """A desk that is told what the test says."""
    return FakeCell(run, tmp_path)
