"""A seal fits one message, on one topic, of one sender, at one instant, in one run, on one boot."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.control.safety import seal
from robot_stack.control.safety.seal import KEY_FILE, WireKey, frame_of
from robot_stack.types.errors import ConfigError

KEY = WireKey(b"k" * 32)
SENT = ("fr3/safety/cmd", "tcp:POLICY", "safety-1", 123, b"numbers")


def test_the_sender_of_a_sealed_message_is_known_and_its_frame_stays_readable():
    text = KEY.sealed(*SENT)
    assert KEY.sender("fr3/safety/cmd", text, 123, b"numbers") == "safety-1"
    assert frame_of(text) == "tcp:POLICY"


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "other/safety/cmd"},
        {"stamp_ns": 124},
        {"body": b"numbers2"},
        {"frame_id": "tcp:HUMAN@safety-1#"},
        {"frame_id": "tcp:POLICY@safety-2#"},
        {"frame_id": "tcp:POLICY@safety-1"},
        {"frame_id": ""},
        {"frame_id": "@#"},
        {"frame_id": "tcp:POLICY@safety-1#é"},
    ],
)
def test_nothing_of_a_sealed_message_can_be_changed(changed: dict):
    text = KEY.sealed(*SENT)
    if changed.get("frame_id", "").endswith("#"):
        changed = {"frame_id": changed["frame_id"] + text.rpartition("#")[2]}
    told = {"topic": "fr3/safety/cmd", "frame_id": text, "stamp_ns": 123, "body": b"numbers"} | changed
    assert KEY.sender(told["topic"], told["frame_id"], told["stamp_ns"], told["body"]) is None


@given(st.text(max_size=80), st.binary(max_size=40))
def test_no_made_up_text_is_a_seal(text: str, body: bytes):
    assert KEY.sender("t", text, 1, body) is None


@pytest.mark.parametrize("text", ["tcp@\udcff#00", "\udc80@x#" + "0" * 24, "@\x00#00"])
def test_bytes_that_are_no_text_are_no_seal_and_no_exception(text: str):
    assert KEY.sender("t", text, 1, b"") is None


def test_processes_of_a_run_have_one_key_and_other_runs_another(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert WireKey.of_folder(one) == WireKey.of_folder(one)
    assert WireKey.of_folder(one) != WireKey.of_folder(other)
    assert stat.S_IMODE((one / KEY_FILE).stat().st_mode) == 0o600
    assert os.listdir(one) == [KEY_FILE]


def test_a_recording_of_an_earlier_boot_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(seal, "BOOT_ID", tmp_path / "first")
    text = WireKey.of_folder(tmp_path).sealed(*SENT)
    monkeypatch.setattr(seal, "BOOT_ID", tmp_path / "second")
    assert WireKey.of_folder(tmp_path).sender("fr3/safety/cmd", text, 123, b"numbers") is None


@pytest.mark.parametrize(
    ("content", "mode", "word"),
    [
        ("ab" * 32, 0o644, "mode of"),
        ("zz", 0o600, "unreadable"),
        ("", 0o600, "must have 32"),
        ("abcd", 0o600, "2 bytes"),
    ],
)
def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path, content: str, mode: int, word: str):
    path = tmp_path / KEY_FILE
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=word):
        WireKey.of_folder(tmp_path)


def test_a_key_never_shows_in_a_log():
    assert "kk" not in repr(KEY)
