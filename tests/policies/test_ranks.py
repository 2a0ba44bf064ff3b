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


ALGORITHMS = (
    "rlpd", "cal_ql", "residual", "flow_bc", "qc", "qc_fql", "dsrl", "dsrl_on_base", "recap", "act", "cqn", "cqn_as",
)  # fmt: skip
Losses = dict[str, list[dict[str, float]]]


def losses(out: Path, *launcher: str) -> Losses:
    """Return the losses of every algorithm, from processes that are started once for all of them."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROCESS.parents[2])}
    words = [sys.executable, *launcher, str(PROCESS), str(out), *ALGORITHMS]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Losses = json.loads(out.read_text())
    return found


@pytest.fixture(scope="module")
def alone_and_together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Losses, Losses]:
    folder = tmp_path_factory.mktemp("ranks")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    logs = ("--log-dir", str(folder / "torchrun"))
    return losses(folder / "alone.json"), losses(folder / "together.json", *launcher, *logs)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_losses_on_two_ranks_are_those_of_the_joint_batch(name: str, alone_and_together: tuple[Losses, Losses]) -> None:
    alone, together = (each[name] for each in alone_and_together)
    assert len(alone) == len(together) == 10
    for expected, got in zip(alone, together, strict=True):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_count_that_a_loss_divides_by_is_never_nothing() -> None:
    assert [float(ALONE.mean_count(torch.arange(4) < chosen)) for chosen in (0, 1, 3)] == [1.0, 1.0, 3.0]


def test_rows_are_dealt_without_remainder() -> None:
    rows = torch.arange(6)
    shares = [Ranks(index=index, count=3).mine(rows) for index in range(3)]
    assert [share.tolist() for share in shares] == [[0, 1], [2, 3], [4, 5]]
