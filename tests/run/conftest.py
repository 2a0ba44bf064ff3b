"""A learner's parts in a folder of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench

sys.path += [str(Path(__file__).parents[2] / "benchmarks"), str(Path(__file__).parents[1] / "replay")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    built = Bench(tmp_path)
    yield built
    built.close()
