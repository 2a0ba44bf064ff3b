"""What the benchmarks' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.evidence import advantage


@pytest.fixture(scope="module")
def few_ways() -> Iterator[None]:
    """Two actions beside the policy's own, and two ways to the end of an episode after each."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"NOISY": 1, "UNIFORM": 1, "WAYS": 2}.items():
            patch.setattr(advantage, name, value)
        yield
