"""The report is written by two processes; what prevents one of them is said by the other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.report import write
from robot_stack.report.plots.run import NAMES
from robot_stack.types.errors import StoreError
from tests.conformance.conformance_rig import wait_until


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
    with pytest.raises(StoreError, match="plots"):
        write.write_report(own_run)
    assert not (own_run / "report.html").exists()


@pytest.mark.parametrize("file", ["plots/learning.png", "plots/learner.png", "summary.json", "report.html"])
def test_either_process_says_which_file_the_disk_refused(file: str, own_run: Path) -> None:
    (own_run / file).unlink(missing_ok=True)
    (own_run / file).mkdir(parents=True)
    with pytest.raises(StoreError, match=re.escape(file)):
        write.write_report(own_run)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("raise SystemExit('torn curve')", RuntimeError, "torn curve"),
        (
            "import os; os.kill(os.getpid(), 9)",
            StoreError,
            "by signal 9, must end by itself; is the memory short",
        ),
    ],
)
def test_a_broken_drawing_process_is_told(
    code: str, kind: type[Exception], words: str, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "DRAWS", (sys.executable, "-c", code))
    with pytest.raises(kind, match=words):
        write.write_report(own_run)
    assert not (own_run / "report.html").exists()


def test_what_it_warns_of_is_passed_on(
    own_run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; sys.stderr.write('a glyph is missing'); print('{\"drawn\": []}')"
    monkeypatch.setattr(write, "DRAWS", (sys.executable, "-c", code))
    assert write.write_report(own_run).exists()
    assert "a glyph is missing" in capfd.readouterr().err


def test_it_stops_drawing_when_its_parent_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"""
import sys
from pathlib import Path
from robot_stack.report import write
write.DRAWS = (*write.ENDS_WITH_ITS_PARENT, sys.executable, "-c", {child!r})
with write._drawing(Path("of a run"), ()):
    print(sys.stdin.read())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        wait_until(lambda: pid.exists() and pid.read_text() != "", "drawing begins", 30.0)
        parent.kill()
    wait_until(lambda: not Path("/proc", pid.read_text()).exists(), "drawing ends", 30.0)


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
