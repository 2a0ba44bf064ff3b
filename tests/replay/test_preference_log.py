"""The log of preferences: survives a kill, names lines that are none, and needs no lock of the store's writer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from robot_stack.replay.annotations import PreferenceLog, preference_from, read_preferences
from robot_stack.types.errors import SpecError
from robot_stack.types.preferences import Further
from tests.replay.test_preferences import preference


def test_what_is_logged_is_read_back_and_said_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "preferences.jsonl"
    log = PreferenceLog(path)
    log.open()
    assert log.append(preference())
    assert not log.append(preference())
    assert log.append(preference(("a", -1), ("b", -1), Further.SAME))
    again = PreferenceLog(path)
    again.open()
    assert again.rows == log.rows == tuple(read_preferences(path).rows)
    with pytest.raises(SpecError, match="episode id"):
        log.append(preference(("../x", 1)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": {"episode_id": "a", "frame": "two"}},
        {"first": {"episode_id": "a", "frame": True}},
        {"first": {"episode_id": "a", "step": 1}},
        {"first": {"episode_id": "b", "frame": 7}},
        {"first": 3},
        {"further": "left"},
        {"source": "truth"},
        {"by": ""},
        {"by": 3},
        {"stamp_unix_s": "now"},
        {"stamp_unix_s": float("inf")},
        {"more": 1},
    ],
)
def test_a_line_that_is_no_preference_is_named_and_left_out(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = tmp_path / "preferences.jsonl"
    good = asdict(preference())
    assert preference_from(json.loads(json.dumps(good))) == preference()
    path.write_text("".join(json.dumps(each) + "\n" for each in (good, {**good, **wrong}, good)))
    found = read_preferences(path)
    assert (len(found.rows), list(found.damaged)) == (2, ["preferences.jsonl line 2"])


SAYS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from robot_stack.replay.annotations import PreferenceLog
from tests.replay.test_preferences import preference
log = PreferenceLog(Path(sys.argv[1]))
log.open()
log.append(preference())
with Path(sys.argv[1]).open("a") as file:
    file.write('{"first": {"epis')
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_preference_survives_kill_minus_nine_and_a_torn_line_goes(tmp_path: Path) -> None:
    path = tmp_path / "preferences.jsonl"
    died = subprocess.run([sys.executable, "-c", SAYS_AND_DIES, str(path)], check=False, timeout=240)
    assert died.returncode == -signal.SIGKILL
    assert read_preferences(path).torn
    log = PreferenceLog(path)
    log.open()
    assert (log.rows, log.damaged) == ((preference(),), {})
    assert log.append(preference(by="ben"))
    assert len(read_preferences(path).rows) == 2
