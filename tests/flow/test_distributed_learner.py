"""A learner of two processes, started by torchrun: to its end, and resumed."""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from policies.distributed import Ranks
from policies.learner import TensorBatch
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.distributed import batch_of, share_of
from tests.flow.flow_rig import PRETRAIN, Finished, Learner, write_run

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.mark.slow  # the losses of two processes are in tests/policies/test_ranks.py
def test_two_processes_train_and_go_on_from_their_checkpoint(finished: Finished, tmp_path: Path) -> None:
    folder = tmp_path / "together"
    write_run(folder, "training.max_episodes=1000")
    for part in ("store", "trunk.safetensors"):  # the demonstrations and online training of the other run
        copy = shutil.copytree if (finished.folder / part).is_dir() else shutil.copy
        copy(finished.folder / part, folder / part)
    launcher = (*TORCHRUN, "--log-dir", str(tmp_path / "torchrun"), "-m", "--")
    reached = PRETRAIN
    for _ in range(2):
        learner = Learner(folder, launcher=launcher)
        try:
            learner.until("training", updates=reached + 20)
            learner.terminate()  # torchrun says 1 after any signal; what counts is what is on disk
        finally:
            learner.kill()
        saved = CheckpointFolder(folder / "checkpoints").load_latest()
        assert saved is not None
        assert saved["learner"]["updates"] >= reached + 20
        reached = saved["learner"]["updates"]
    assert all(torch.isfinite(tensor).all() for tensor in saved["learner"]["policy"].values())
    assert "gone" not in learner.tail()


def test_rows_that_are_dealt_out_are_the_joint_batch() -> None:
    rng = np.random.default_rng(0)
    columns = [field.name for field in fields(TensorBatch) if "images" not in field.name]
    made: dict[str, Any] = {name: torch.from_numpy(rng.random((6, 3)).astype(np.float32)) for name in columns}
    joint = TensorBatch(**made, images={"wrist": torch.arange(6)[:, None]})
    shares = [batch_of(share_of(joint, Ranks(index=index, count=3))) for index in range(3)]
    for name in columns:
        assert torch.equal(torch.cat([getattr(share, name) for share in shares]), getattr(joint, name))
    assert torch.equal(torch.cat([share.images["wrist"] for share in shares]), joint.images["wrist"])
    assert all(share.next_images == {} for share in shares)
