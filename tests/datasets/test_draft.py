"""A new folder is there whole or not at all: killed, on a full disk, where nothing may be written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.edit import Changes, edit
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.types.errors import StoreError
from tests.datasets.data_rig import contents, full_disk, made_episode, write_folder

DIES = """
import os, sys
from pathlib import Path
from robot_stack.datasets.draft import new_folder
def wait():
    print("waits", flush=True)
    sys.stdin.read()
with new_folder(Path(sys.argv[1])) as draft:
    (draft / "half").write_text("x")
    if sys.argv[2] == "sync":
        os.sync = wait
    else:
        wait()
"""


@pytest.fixture
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of writing tmp_path / "out", or of waiting for the disk where the parameter is "sync"."""
    process = subprocess.Popen(
        [sys.executable, "-c", DIES, str(tmp_path / "out"), getattr(request, "param", "")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    yield process
    process.kill()
    process.communicate(timeout=240)


def test_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_folder(tmp_path / "new" / "out") as draft:
        (draft / "file").write_text("x")
        assert not (tmp_path / "new" / "out").exists()
    assert contents(tmp_path) == {"new/out/file": b"x"}


def test_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "out") as draft:
            (draft / "file").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())


def test_folder_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("out", "link"):
        with pytest.raises(StoreError, match=r"must not exist yet; choose another"), new_folder(tmp_path / name):
            pytest.fail("the block was entered")


def test_killed_writer_leaves_no_folder_and_the_next_one_starts_anew(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    writer.send_signal(signal.SIGKILL)
    writer.wait(20)
    assert not (tmp_path / "out").exists()
    with new_folder(tmp_path / "out") as draft:
        assert contents(draft).keys() == {"writer.lock"}
        (draft / "file").write_text("y")
    assert contents(tmp_path) == {"out/file": b"y"}


@pytest.mark.parametrize("writer", ["", "sync"], indirect=True)
def test_second_writer_of_one_folder_is_refused_and_harms_nobody(writer: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"is process {writer.pid}, must be this one"), new_folder(tmp_path / "out"):
        pytest.fail("the block was entered")
    writer.communicate("", timeout=240)
    assert contents(tmp_path) == {"out/half": b"x"}


def test_full_disk_is_a_sentence_and_leaves_what_was_there(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")])
    before = contents(tmp_path)
    for changes in (Changes(notes={"e": "x"}), Changes(trims={"e": (0, 15)})):
        with full_disk(), pytest.raises(StoreError, match=r"writing .*/b failed: File too large .*nothing was left"):
            edit(view, tmp_path / "b", changes, now_unix_s=1.0)
        assert contents(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_a_sentence(view: StoreView, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"Permission denied .*choose another output folder"):
            edit(view, tmp_path / "b", Changes(notes={"000000-demo-a": "x"}), now_unix_s=1.0)
    finally:
        tmp_path.chmod(0o700)


def test_disk_that_turns_read_only_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))

    monkeypatch.setattr(os, "sync", refuse)
    with pytest.raises(StoreError, match=r"Read-only file system .*fix permissions"), new_folder(tmp_path / "out"):
        pass
    assert not list(tmp_path.iterdir())


def test_folder_below_a_file_is_a_sentence(view: StoreView, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"writing .* failed: .*choose another output folder"):
        edit(view, tmp_path / "file" / "b", Changes(notes={"000000-demo-a": "x"}), now_unix_s=1.0)


KILLED_EDIT = """
import sys
from pathlib import Path
from robot_stack.datasets.edit import Changes, edit
from robot_stack.datasets.store_view import open_store
view = open_store(Path(sys.argv[1]))
changes = Changes(trims={name: (1, 9) for name in view.episodes})
print("go", flush=True)
edit(view, Path(sys.argv[2]), changes, now_unix_s=1.0)
"""


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.3])
def test_edit_killed_at_any_instant_loses_nothing(view: StoreView, after_s: float, tmp_path: Path) -> None:
    before = contents(view.root)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_EDIT, str(view.root), str(tmp_path / "out")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate(timeout=240)
    assert contents(view.root) == before
    out = tmp_path / "out"
    if not out.exists():
        edit(open_store(view.root), out, Changes(trims={name: (1, 9) for name in view.episodes}), now_unix_s=1.0)
    assert open_store(out).episodes == view.episodes
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
