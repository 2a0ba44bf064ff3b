"""The simulated cell as it is shipped; the task's numbers may change, so no test pins them."""

from __future__ import annotations

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.workcell.build import build_world
from sim.world import World


@pytest.fixture(scope="session")
def resolved() -> ResolvedRun:
    return load_run("peg_insert")


@pytest.fixture
def world(resolved: ResolvedRun) -> World:
    return build_world(resolved)
