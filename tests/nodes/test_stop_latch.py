"""The file that keeps a STOP: made beforehand, durable before it is announced, unreadable means STOP."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_stack.nodes.safety import stop_latch
from robot_stack.nodes.safety.stop_latch import CLEAR, SIZE, StopLatch
from robot_stack.types.reason import RefusalKind
from tests.nodes.cell_rig import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "safety" / "stop.json"


def opened(path: Path) -> StopLatch:
    latch = StopLatch(path)
    assert latch.open() == ""
    return latch


def state(path: Path) -> str:
    return json.loads(path.read_text())["state"]


def test_a_kept_stop_is_read_by_the_next_process_with_since_when_and_who(path: Path) -> None:
    latch = opened(path)
    assert not latch.kept
    latch.keep("stop pressed (keyboard)")
    wait_until(latch.settled, 5.0, "the file")
    again = StopLatch(path)
    assert again.open().startswith("stop pressed (keyboard), since 20")
    assert again.kept
    assert again.clear() is None
    assert StopLatch(path).open() == ""


def test_the_file_has_its_size_from_the_start_and_whatever_is_said(path: Path) -> None:
    latch = opened(path)
    assert path.stat().st_size == SIZE
    for reason in ("x", "long " * 1000, "ä" * 5000):
        latch.keep(reason)
        wait_until(latch.settled, 5.0, "the file")
        assert path.stat().st_size == SIZE
        assert state(path) == "stop"


def test_keeping_does_not_wait_for_the_disk_and_announcing_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch, disk = opened(path), threading.Event()
    real = os.fsync
    monkeypatch.setattr(stop_latch.os, "fsync", lambda fd: disk.wait(5.0) and real(fd))
    latch.keep("x")
    assert latch.kept
    assert not latch.settled()
    disk.set()
    wait_until(latch.settled, 5.0, "the file")
    assert state(path) == "stop"


def test_a_disk_that_never_answers_does_not_hide_a_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch, disk = opened(path), threading.Event()
    monkeypatch.setattr(stop_latch.os, "fsync", lambda fd: disk.wait(5.0))
    monkeypatch.setattr(stop_latch, "PATIENCE_NS", 20_000_000)
    latch.keep("x")
    wait_until(latch.settled, 1.0, "patience")
    disk.set()
    latch.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"reason": "x"}', "\x00\x01", '{"state": "stop"}'])
def test_a_file_that_cannot_be_read_is_a_stop_also_for_the_process_after(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    latch = StopLatch(path)
    assert "is unreadable" in latch.open()
    assert latch.kept
    assert "unreadable" in StopLatch(path).open()


def test_a_disk_without_room_at_the_start_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stop_latch.os, "pwrite", full)
    latch = opened(path)
    assert "is not made" in latch.error
    latch.keep("x")
    wait_until(latch.settled, 5.0, "the attempt")
    assert "a restart would forget the STOP" in latch.error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk that is full")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill_up(folder: Path) -> None:
    """Until there is no room for another block."""
    with pytest.raises(OSError, match="No space left"):
        (folder / "fill").write_bytes(b"x" * (2 << 20))


def test_a_stop_survives_a_full_disk_and_a_restart(small_disk: Path) -> None:
    latch = opened(small_disk / "stop.json")
    fill_up(small_disk)
    latch.keep("stop pressed (keyboard)")
    wait_until(latch.settled, 5.0, "the file")
    assert latch.error == ""
    again = StopLatch(small_disk / "stop.json")
    assert again.open().startswith("stop pressed (keyboard)")
    assert again.clear() is None
    assert state(small_disk / "stop.json") == CLEAR


def test_a_stop_that_cannot_be_cleared_on_disk_is_not_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch = opened(path)
    latch.keep("x")
    wait_until(latch.settled, 5.0, "the file")

    def refuse(fd: int) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(stop_latch.os, "fsync", refuse)
    refusal = latch.clear()
    assert refusal is not None
    assert refusal.kind is RefusalKind.DISK
    assert "stays (Read-only file system)" in refusal.text
    assert latch.kept
