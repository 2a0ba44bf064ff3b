"""kill -9 of the learner at any instant, again and again: nothing it acknowledged is lost, and nothing counts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kills import run


@pytest.mark.slow  # one kill of each side is in test_killed_run.py
def test_no_acknowledged_step_is_lost_or_doubled_by_kills(tmp_path: Path) -> None:
    assert run(tmp_path / "run", kills=3, seed=1) == {"kills": 3.0, "lost_acked_steps": 0.0}
