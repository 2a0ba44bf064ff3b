"""Critics of a tiny run are trained anew with other settings and ranked; the run's folder stays as it was."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.evidence import critics
from benchmarks.evidence.advantage import Trial
from benchmarks.evidence.conditions import CONDITIONS
from benchmarks.evidence.runs import resolve
from benchmarks.learning.lockstep import train_online
from tests.benchmarks.test_evidence_runs import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_ways")]


def test_each_candidate_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    train_online(resolve(CONDITIONS["full"], 0, 0.1, TINY), folder)
    before = {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}
    names = ["as in the run", "3 steps, 5 critics"]
    played = critics.play_trials

    def told_apart(*args: Any, **options: Any) -> list[Trial]:
        """So short a training never comes to the end of the task."""
        rng = np.random.default_rng(0)
        return [replace(each, ways=rng.random(each.ways.shape)) for each in played(*args, **options)]

    monkeypatch.setattr(critics, "play_trials", told_apart)
    monkeypatch.setattr(sys, "argv", ["critics", str(folder), "--updates", "8", "--states", "1", "--only", *names])
    critics.main()
    said = capsys.readouterr().out
    rows = [line.split(" | ") for line in said.splitlines() if line.startswith(tuple(f"| {name} |" for name in names))]
    assert len(rows) == len(names)
    assert all(len(row[1].split()) == critics.LOOKS for row in rows)
    assert rows[0][1] != rows[1][1]
    assert {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))} == before
