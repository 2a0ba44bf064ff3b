"""The report is written by two processes; what prevents one of them is said by the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.report import write
from robot_stack.report.plots.run import NAMES
from robot_stack.types.errors import StoreError


@pytest.fixture
def own_run(reported_run: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(reported_run, tmp_path / "peg"))
    shutil.rmtree(folder / "plots")
    (folder / "report.html").unlink()
    return folder


def test_both_processes_have_their_plots() -> None:
    assert set(write.APART) < set(NAMES)


def test_a_plot_that_cannot_be_written_is_said_and_no_page_claims_it(own_run: Path) -> None:
    (own_run / "plots").write_text("in the way of a folder")
    with pytest.raises((StoreError, OSError), match="plots"):
        write.write_report(own_run)
    assert not (own_run / "report.html").exists()


def test_the_other_process_says_which_file_the_disk_refused(own_run: Path) -> None:
    (own_run / "plots" / "learning.png").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"learning\.png"):
        write.write_report(own_run)


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise SystemExit('torn curve')", "torn curve"), ("import os; os.kill(os.getpid(), 9)", "-9")],
)
def test_a_broken_drawing_process_is_told_with_its_words(
    code: str, words: str, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "DRAWS", (sys.executable, "-c", code))
    with pytest.raises(RuntimeError, match=words):
        write.write_report(own_run)
    assert not (own_run / "report.html").exists()


def test_no_process_goes_on_drawing_a_run_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen[str]):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            begun.append(self)

    monkeypatch.setattr(write, "DRAWS", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(subprocess, "Popen", Kept)
    with pytest.raises(StoreError, match="nowhere"):
        write.write_report(tmp_path / "nowhere")
    assert [process.returncode for process in begun] == [-9]


def test_it_begins_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, robot_stack.report.write; print([n for n in ('numpy', 'matplotlib', 'zarr') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
