"""Shared by the tests of the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(scope="session")
def run() -> ResolvedRun:
    """The dry run, on a domain far from an operator's own."""
    return load_run("peg_insert", ["cell.dds_domain=60"])
