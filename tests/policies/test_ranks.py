"""Two processes with half the rows each do what one does with all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from policies.distributed import ALONE, Ranks

pytestmark = pytest.mark.long

PROCESS = Path(__file__).with_name("ranks_process.py")


def losses(name: str, out: Path, *launcher: str) -> list[dict[str, float]]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(PROCESS.parents[2]),
    }
    done = subprocess.run(
        [sys.executable, *launcher, str(PROCESS), name, str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, float]] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize("name", ["rlpd", "cal_ql", "residual"])
def test_losses_on_two_ranks_are_those_of_the_joint_batch(name: str, tmp_path: Path) -> None:
    alone = losses(name, tmp_path / "alone.json")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    logs = ("--log-dir", str(tmp_path / "torchrun"))
    together = losses(name, tmp_path / "together.json", *launcher, *logs)
    assert len(alone) == len(together) == 10
    for expected, got in zip(alone, together, strict=True):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_count_that_a_loss_divides_by_is_never_nothing() -> None:
    assert [float(ALONE.mean_count(torch.arange(4) < chosen)) for chosen in (0, 1, 3)] == [1.0, 1.0, 3.0]


def test_rows_are_dealt_without_remainder() -> None:
    rows = torch.arange(6)
    shares = [Ranks(index=index, count=3).mine(rows) for index in range(3)]
    assert [share.tolist() for share in shares] == [[0, 1], [2, 3], [4, 5]]
