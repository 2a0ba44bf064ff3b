"""Rows of the fault matrix: their marker, what they measured, and where `make faults` wants it written."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix_rows import ROWS, Measured

FILE = "FAULTS_JSON"
"""Set by `make faults`: where the measurements go. With it, the long form of each row runs."""
_measured: dict[int, Measured] = {}


@pytest.fixture(autouse=True)
def _no_old_garbage() -> None:
    """Keep the collector off what earlier tests left, as a node does: this process is policy and operator too."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Where a test of the matrix puts what it measured."""
    marker = request.node.get_closest_marker("row")
    assert marker is not None, "a test that measures has a row"
    measured = Measured(marker.args[0])
    yield measured
    _measured[measured.number] = measured


def pytest_sessionfinish(exitstatus: int) -> None:
    """Only a run without failures says what the bounds are in fact."""
    path = os.environ.get(FILE)
    if path and exitstatus == 0 and set(_measured) == set(ROWS):
        plain = {str(number): measured.text() for number, measured in sorted(_measured.items())}
        Path(path).write_text(json.dumps(plain, indent=1) + "\n")
