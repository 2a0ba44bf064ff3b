"""Shared by the tests of base policies."""

from __future__ import annotations

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun


@pytest.fixture(scope="session")
def resolved_peg() -> ResolvedRun:
    """The dry run, without a base."""
    return load_run("peg_insert")
