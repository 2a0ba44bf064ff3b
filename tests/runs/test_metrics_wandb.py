"""Metrics in Weights & Biases, offline as shipped: what a later `wandb sync` uploads is on disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from robot_stack.runs import metrics
from robot_stack.runs.metrics import MetricsLog, read_rows, usual_wandb_mode
from robot_stack.runs.rows import UpdateRow
from robot_stack.types.errors import ConfigError

PROGRAM = """
from pathlib import Path
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import EpisodeRow, UpdateRow
from robot_stack.types.transition import EpisodeKind
log = MetricsLog(Path({path!r}), wandb_mode="offline", run_name="monday", config={{"task": {{"name": "peg_insert"}}}})
log.log(UpdateRow(updates=100, env_steps=20, metrics={{"q": 0.4375, "q_gradient": 1.0, "imitation_gradient": 3.0}}))
log.log(
    EpisodeRow(
        episode_id="000004-online-a", episode_kind=EpisodeKind.ONLINE, success=True, steps=57, duration_s=5.7
    )
)
log.close()
"""


@pytest.mark.long
def test_rows_of_numbers_and_the_configuration_are_in_the_offline_run(tmp_path: Path) -> None:
    """In a process of its own: wandb starts a service and leaves handlers at exit."""
    program = PROGRAM.format(path=str(tmp_path / "metrics.jsonl"))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = file.read_bytes()
    for text in (b"peg_insert", b"update/q", b"0.4375", b"update/*", b"update/updates", b"episode/steps"):
        assert text in content, text
    for text in (b"learning/*", b"learning/robot_min", b"learning/alone", b"learning/human", b"learning/q_share"):
        assert text in content, text
    assert b"000004-online-a" not in content  # only numbers have panels


def test_a_run_has_an_id_of_its_own_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install 'robot-stack[wandb]'")
    ids = []
    monkeypatch.setattr(wandb, "init", lambda **said: ids.append(said["id"]) or Mock())
    for folder in ("here", "there", "here"):
        MetricsLog(tmp_path / folder / "metrics.jsonl", wandb_mode="offline", run_name="2026-03-01T10:30").close()
    here, there, again = ids
    assert here == again != there
    assert here.isalnum()


@pytest.fixture
def wandb() -> Any:
    """Weights & Biases, whose runs a test puts in place."""
    return pytest.importorskip("wandb", reason="wandb is not installed: pip install 'robot-stack[wandb]'")


ROW = UpdateRow(updates=100, env_steps=20, metrics={})


def test_a_service_that_is_gone_costs_no_row_and_ends_nobody(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Mock(log=Mock(side_effect=[None, ConnectionResetError("Connection lost")]))
    monkeypatch.setattr(wandb, "init", lambda **said: run)
    log = MetricsLog(tmp_path / "metrics.jsonl", wandb_mode="offline")
    for _ in range(4):
        log.log(ROW)
    log.close()
    assert len(read_rows(tmp_path / "metrics.jsonl").rows) == 4
    assert run.log.call_count == 2  # no more than it took to know
    assert [record.message for record in caplog.records] == [
        "wandb is left out from here on (ConnectionResetError('Connection lost')); metrics.jsonl has every row"
    ]


def test_without_its_server_a_run_is_kept_offline(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, modes = Mock(), list[str]()

    def init(*, mode: str, **said: Any) -> Mock:
        modes.append(mode)
        if mode == "online":
            raise wandb.errors.CommError("connection refused")
        return run

    monkeypatch.setattr(wandb, "init", init)
    monkeypatch.setattr(wandb, "teardown", lambda: None)
    log = MetricsLog(tmp_path / "metrics.jsonl", wandb_mode="online")
    log.log(ROW)
    assert modes == ["online", "offline"]
    assert run.log.call_count == 1
    assert "wandb sync" in caplog.text


def test_nobody_logged_in_is_refused_with_what_to_do(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb, "init", Mock(side_effect=wandb.errors.UsageError("No API key configured.")))
    with pytest.raises(ConfigError, match=r"No API key configured.*wandb login, or unset WANDB_MODE"):
        MetricsLog(tmp_path / "metrics.jsonl", wandb_mode="online")


def test_a_server_that_does_not_take_the_end_of_a_run_holds_nobody_up(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(wandb, "init", lambda **said: Mock(finish=lambda: answered.wait(60)))
    monkeypatch.setattr(metrics, "ANSWER_S", 0.1)
    MetricsLog(tmp_path / "metrics.jsonl", wandb_mode="online").close()
    assert not answered.is_set()
    assert "does not take the end of this run; wandb sync" in caplog.text
    answered.set()


@pytest.mark.parametrize(("asked", "mode"), [("online", "online"), ("disabled", "disabled"), ("", "offline")])
def test_its_mode_is_that_of_the_environment(asked: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", asked)
    assert usual_wandb_mode() == mode


@pytest.mark.long
def test_robot_time_goes_on_with_the_run(tmp_path: Path) -> None:
    """Each of the two processes logs an episode of 57 steps at 10 Hz behind 20 steps that were known."""
    for _ in range(2):
        program = PROGRAM.format(path=str(tmp_path / "metrics.jsonl"))
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    found = [
        json.loads(value)
        for file in sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
        for value in re.findall(rb"learning/robot_min\W{1,4}?([0-9.]{3,20})", file.read_bytes())
    ]
    assert found[-1] == pytest.approx(114 / 600, abs=1e-6), found


def test_without_wandb_a_run_goes_on_with_its_own_file_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usual_wandb_mode() == "offline"
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    assert usual_wandb_mode() == "disabled"
    MetricsLog(tmp_path / "metrics.jsonl", wandb_mode=usual_wandb_mode()).close()
    with pytest.raises(ConfigError, match=r"must be there to be online; pip install 'robot-stack\[wandb\]'"):
        MetricsLog(tmp_path / "metrics.jsonl", wandb_mode="online")
