"""Shared by the tests of the nodes."""

from __future__ import annotations

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun


@pytest.fixture(scope="session")
def run() -> ResolvedRun:
    """The dry run, on a domain far from an operator's own."""
    return load_run("peg_insert", ["cell.dds_domain=60"])
