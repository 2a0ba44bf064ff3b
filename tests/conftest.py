"""Shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # counts only before numpy or torch is imported

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import sim  # noqa: F401 - says how MuJoCo draws, which counts only before a test imports it
from tests.examples import examples

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# How long an example takes is the machine's business.
settings.register_profile("search", max_examples=examples(100), deadline=None)
# A rare find is for whoever searches; it must not fail a change that has nothing to do with it.
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Give the tests of a file to one worker, and so all of `flow`, which look at the same two runs."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "tests/flow" if file.startswith("tests/flow/") else file

    return Together(config, log)
