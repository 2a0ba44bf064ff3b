"""A run folder of another task or spec is refused, naming the field, and left as it was."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_stack.learner import process as learner
from robot_stack.types.errors import MISCONFIGURED, UNPREPARED
from tests.flow.flow_rig import Finished, stored, write_run


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("rate_hz=12", "rate_hz"),
        ("task.arm.translation_m=0.02", "translation_m"),
        ("task.arm.axes=[x, y, z]", "axes"),
    ],
)
def test_folder_of_another_spec_is_refused_by_the_field(
    override: str, field: str, finished: Finished, capfd: pytest.CaptureFixture[str]
) -> None:
    before = stored(finished.folder).keys()
    other = finished.folder.parent / f"other-{field}"
    write_run(other, override)
    (other / "store").symlink_to(finished.folder / "store")
    code = _learn(other)
    said = capfd.readouterr().err
    assert code == UNPREPARED
    assert field in said
    assert "another run" in said
    assert stored(finished.folder).keys() == before


def test_folder_of_another_task_is_refused(finished: Finished, capfd: pytest.CaptureFixture[str]) -> None:
    other = finished.folder.parent / "other-task"
    write_run(other)
    text = (other / "run.yaml").read_text()
    (other / "run.yaml").write_text(text.replace("name: peg_insert", "name: peg_turn"))
    (other / "store").symlink_to(finished.folder / "store")
    assert _learn(other) == UNPREPARED
    assert "task is 'peg_insert', must be 'peg_turn'" in capfd.readouterr().err


def test_checkpoint_of_a_reward_model_that_is_gone_is_refused_by_name(
    finished: Finished, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    shutil.copytree(finished.folder, folder)
    (model,) = folder.glob("progress_*.safetensors")
    model.unlink()
    assert _learn(folder) == MISCONFIGURED
    assert model.name in capfd.readouterr().err


def _learn(folder: Path) -> int:
    return learner.main(["--run", str(folder / "run.yaml"), "--address", "127.0.0.1:0", "--wandb", "disabled"])
