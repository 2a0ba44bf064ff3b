"""A learner's parts in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.learner.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    built = Bench(tmp_path)
    yield built
    built.close()
