"""Checkpoints: whole or not there, the last three and the best; a disk that refuses ends nobody."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from robot_stack.learner.checkpoint import BEST, KEEP, CheckpointFolder, CheckpointWriter, pack
from robot_stack.types.errors import ResumeError, StoreError
from robot_stack.types.params import Params
from tests.disk.full import full_after

NAN = float("nan")


def _save(folder: CheckpointFolder, step: int, state: dict[str, Any] | None = None, success: float = NAN) -> bool:
    return folder.write(step, pack(state or {"n": step}, success=success), success=success)


def _n(state: dict[str, Any] | None) -> int:
    assert state is not None
    return int(state["n"])


def test_checkpoint_comes_back_as_it_was_and_three_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "c")
    assert folder.load_latest() is None
    for step in (5, 10, 200, 1_000):
        _save(folder, step, {"w": torch.full((2,), float(step)), "rng": {"inc": str(2**100)}, "n": [1, 2]})
    assert folder.steps() == [10, 200, 1_000]
    assert len(folder.steps()) == KEEP
    state = folder.load_latest()
    assert state is not None
    torch.testing.assert_close(state["w"], torch.full((2,), 1000.0))
    assert (state["rng"], state["n"]) == ({"inc": str(2**100)}, [1, 2])
    assert [path.suffix for path in (tmp_path / "c").iterdir()] == [".pt"] * KEEP


def test_best_is_kept_beside_the_last_three_and_of_equals_the_newer(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    told = [
        _save(folder, step, success=success)
        for step, success in ((1, NAN), (2, 0.5), (3, 0.4), (4, 0.5), (5, 0.3), (6, NAN), (7, 0.45))
    ]
    assert told == [False, True, False, True, False, False, False]
    assert folder.steps() == [5, 6, 7]
    assert torch.load(tmp_path / BEST, weights_only=True) == {"n": 4, "success": 0.5}


def test_best_is_remembered_by_the_next_process_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    _save(CheckpointFolder(tmp_path), 1, success=0.9)
    assert not _save(CheckpointFolder(tmp_path), 2, success=0.8)
    os.truncate(tmp_path / BEST, 20)
    assert _save(CheckpointFolder(tmp_path), 3, success=0.8)


def test_half_written_checkpoint_is_none_and_is_cleared_away(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    _save(folder, 1)
    half = tmp_path / "step_000000002.pt.partial"
    half.write_bytes(b"half")
    assert _n(folder.load_latest()) == 1
    _save(folder, 3)
    assert not half.exists()


def test_damaged_newest_checkpoint_is_refused_with_the_command_to_go_on(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        _save(folder, step)
    newest = tmp_path / "step_000000002.pt"
    os.truncate(newest, newest.stat().st_size - 40)
    with pytest.raises(ResumeError, match=rf"unreadable.*to go on from step_000000001\.pt: rm '{newest}'$"):
        folder.load_latest()
    newest.unlink()
    assert _n(folder.load_latest()) == 1


@pytest.mark.long
def test_checkpoint_with_a_flipped_bit_is_refused_wherever_the_bit_is_of_what_was_written(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    weights = torch.arange(30.0)
    _save(folder, 1, {"w": weights, "n": 1})
    path = tmp_path / "step_000000001.pt"
    content = path.read_bytes()
    refused: list[str] = []
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        try:
            state = folder.load_latest()
        except ResumeError as error:
            refused.append(str(error))
        else:  # between what was written there is room that nobody reads
            assert state is not None
            assert _n(state) == 1
            assert torch.equal(state["w"], weights)
    assert len(refused) > weights.nbytes
    assert all(re.search(r"unreadable \(.+\), must be whole; to go on without one", each) for each in refused)


def test_best_with_a_flipped_bit_is_replaced(tmp_path: Path) -> None:
    _save(CheckpointFolder(tmp_path), 1, {"w": torch.zeros(1_000)}, success=0.9)
    content = bytearray((tmp_path / BEST).read_bytes())
    content[content.index(bytes(1_000)) + 500] ^= 4
    (tmp_path / BEST).write_bytes(content)
    assert _save(CheckpointFolder(tmp_path), 2, success=0.8)


def test_damaged_only_checkpoint_says_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "step_000000001.pt").write_bytes(b"")
    with pytest.raises(ResumeError, match="to go on without one, from the recorded episodes: rm"):
        CheckpointFolder(tmp_path).load_latest()


def test_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(ResumeError, match="checkpoints is a file, must be the folder of the checkpoints; move it away"):
        CheckpointFolder(tmp_path / "checkpoints").load_latest()


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.putenv, ("CHECKPOINT_RAN_CODE",))


def test_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save({"n": _Evil()}, tmp_path / "step_000000001.pt")
    with pytest.raises(ResumeError, match="unreadable"):
        CheckpointFolder(tmp_path).load_latest()


def test_full_disk_leaves_the_checkpoints_before_and_nothing_else(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    _save(folder, 1, success=0.5)
    large = {"n": 2, "w": torch.zeros(10_000)}
    with full_after(1000), pytest.raises(StoreError, match=r"step_000000002\.pt is not written: .*File too large"):
        _save(folder, 2, large, success=0.9)
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEST, "step_000000001.pt"]
    assert _n(folder.load_latest()) == 1
    assert _save(folder, 2, large, success=0.9)


class _Told:
    """A writer with everything it said."""

    def __init__(self, folder: Path) -> None:
        self.failures: list[str] = []
        self.best: list[int] = []
        self.writer = CheckpointWriter(
            CheckpointFolder(folder),
            on_failure=self.failures.append,
            on_best=lambda params: self.best.append(params.version),
        )

    def save(self, step: int, success: float = NAN) -> None:
        params = Params(version=step, tensors={}, sha256="", metadata={})
        self.writer.save(step, {"n": step, "w": torch.zeros(10_000)}, success=success, params=params)
        self.writer.wait()


def test_writer_says_that_the_disk_refused_and_tries_again(tmp_path: Path) -> None:
    told = _Told(tmp_path)
    told.save(1)
    with full_after(1000):
        told.save(2)
        told.save(3)
    assert len(told.failures) == 2
    assert told.writer.failure == told.failures[-1]
    assert _n(CheckpointFolder(tmp_path).load_latest()) == 1
    told.save(4)
    assert told.writer.failure == ""
    assert CheckpointFolder(tmp_path).steps() == [1, 4]


def test_writer_survives_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    told = _Told(tmp_path / "run" / "checkpoints")
    told.save(1)
    assert "step_000000001.pt is not written" in told.writer.failure
    (tmp_path / "run").unlink()
    told.save(2)
    assert told.writer.failure == ""


def test_old_checkpoint_that_cannot_be_removed_is_said(tmp_path: Path) -> None:
    told = _Told(tmp_path)
    (tmp_path / "step_000000000.pt" / "in the way").mkdir(parents=True)
    for step in range(1, KEEP + 1):
        told.save(step)
    assert "what is older than checkpoint step_000000003.pt is not removed" in told.writer.failure
    assert _n(CheckpointFolder(tmp_path).load_latest()) == 3


def test_writer_says_what_nobody_expected_and_goes_on(tmp_path: Path) -> None:
    told = _Told(tmp_path)
    told.best = None  # type: ignore[assignment]
    told.save(1, success=0.5)
    assert re.match("checkpoint of update 1 is not whole: AttributeError.*; report this", told.writer.failure)
    assert told.failures == [told.writer.failure]
    told.best = []
    told.save(2, success=0.6)
    assert (told.writer.failure, told.best) == ("", [2])


def test_writer_hands_on_the_parameters_of_the_best(tmp_path: Path) -> None:
    told = _Told(tmp_path)
    for step, success in ((1, NAN), (2, 0.2), (3, 0.1), (4, 0.2)):
        told.save(step, success)
    assert told.best == [2, 4]


def test_checkpoint_is_of_the_moment_it_was_asked_for_and_nobody_waits(tmp_path: Path) -> None:
    gate = threading.Event()

    class Slow(CheckpointFolder):
        def write(self, step: int, packed: memoryview, *, success: float) -> bool:
            assert gate.wait(30.0)
            return super().write(step, packed, success=success)

    folder = Slow(tmp_path)
    writer = CheckpointWriter(folder, on_failure=lambda why: None, on_best=lambda params: None)
    weights = torch.zeros(3)
    writer.save(1, {"w": weights, "n": 1}, success=NAN, params=None)
    weights += 1.0
    writer.save(2, {"w": weights, "n": 2}, success=NAN, params=None)  # the first is not on disk yet
    gate.set()
    writer.wait()
    state = folder.load_latest()
    assert state is not None
    assert (state["n"], state["w"].tolist()) == (1, [0.0, 0.0, 0.0])
