"""The processes of one learner wait for each other as long as it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROCESS = Path(__file__).with_name("patient_ranks.py")


def test_a_learner_of_two_processes_outlasts_a_pause_longer_than_the_default_of_torch(tmp_path: Path) -> None:
    """Half an hour without an update, as while demonstrations are recorded, ended it."""
    heard = tmp_path / "heard"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--log-dir", str(tmp_path))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROCESS.parents[2])}
    words = [sys.executable, *launcher, str(PROCESS), str(heard)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert heard.read_text() == "END"
