"""The file that keeps a STOP: durable before it is announced, gone only with the STOP, unreadable means STOP."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from cell_rig import wait_until

from robot_stack.nodes import stop_latch
from robot_stack.nodes.stop_latch import StopLatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "safety" / "stop.json"


def test_a_kept_stop_is_read_by_the_next_process_with_since_when_and_who(path: Path) -> None:
    latch = StopLatch(path)
    assert latch.read() == ""
    assert not latch.kept
    latch.keep("stop pressed (keyboard)")
    wait_until(latch.settled, 5.0, "the file")
    again = StopLatch(path)
    assert again.read().startswith("stop pressed (keyboard), since 20")
    assert again.kept
    assert again.remove() == ""
    assert StopLatch(path).read() == ""


def test_keeping_does_not_wait_for_the_disk_and_announcing_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = threading.Event()
    real = os.fsync
    monkeypatch.setattr(stop_latch.os, "fsync", lambda fd: disk.wait(5.0) and real(fd))
    latch = StopLatch(path)
    latch.keep("x")
    assert latch.kept
    assert not latch.settled()
    assert not path.exists()
    disk.set()
    wait_until(latch.settled, 5.0, "the file")
    assert path.exists()


def test_a_disk_that_never_answers_does_not_hide_a_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = threading.Event()
    monkeypatch.setattr(stop_latch.os, "fsync", lambda fd: disk.wait(5.0))
    monkeypatch.setattr(stop_latch, "PATIENCE_NS", 20_000_000)
    latch = StopLatch(path)
    latch.keep("x")
    wait_until(latch.settled, 1.0, "patience")
    disk.set()
    latch.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"reason": "x"}', "\x00\x01"])
def test_a_file_that_cannot_be_read_is_a_stop(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    latch = StopLatch(path)
    assert "is unreadable" in latch.read()
    assert latch.kept


def test_a_disk_that_refuses_is_said(path: Path) -> None:
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("")  # no folder can be made here
    latch = StopLatch(path)
    latch.keep("x")
    wait_until(latch.settled, 5.0, "the attempt")
    assert "a restart would forget the STOP" in latch.error


def test_a_torn_write_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch = StopLatch(path)
    latch.keep("first")
    wait_until(latch.settled, 5.0, "the file")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stop_latch.os, "fsync", full)
    latch.keep("second")
    wait_until(latch.settled, 5.0, "the attempt")
    assert json.loads(path.read_text())["reason"] == "first"


def test_a_stop_that_cannot_be_removed_is_not_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch = StopLatch(path)
    latch.keep("x")
    wait_until(latch.settled, 5.0, "the file")

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert "stays (Read-only file system), must go for the STOP to end" in latch.remove()
    assert latch.kept
